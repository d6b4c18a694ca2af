// stb_image with the decoders that DecodeImage.h offers, without files, and without vector code, so
// that a JPEG has the same pixels on every machine.
#pragma once

#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNM
#define STBI_NO_STDIO
#define STBI_NO_SIMD
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_MAX_DIMENSIONS (1 << 20)
#include <stb/stb_image.h>
