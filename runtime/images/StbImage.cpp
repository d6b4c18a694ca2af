// The code of stb_image, in an object of its own: it is not ours, and has its own warnings.
#define STB_IMAGE_IMPLEMENTATION
#include "runtime/images/StbImage.h"
