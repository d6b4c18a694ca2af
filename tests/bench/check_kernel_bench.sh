#!/bin/sh
# usage: check_kernel_bench.sh [EMULATOR...] KERNEL_BENCH
# A name that is none of the formats is refused before anything is measured; one that is gets its line, and so does
# each length of rows to quantize.
set -eu
quick="--rows 1 --threads 1 --shapes 64x64 --rounds 1 --memory 1"

status=0
said=$("$@" $quick --formats int4/32 int5/32 2>&1) || status=$?
[ "$status" = 2 ] || { echo "exit $status of an unknown format, expected 2: $said"; exit 1; }
case $said in
  "--formats 'int5/32', expected some of: f32 "*" int2+2/32 "*) ;;
  *) echo "an unknown format was refused without the known ones: $said"; exit 1 ;;
esac

said=$("$@" $quick --formats int4/32 int2+2/32)
lines=$(echo "$said" | awk '$2 == 64 { print $1 }' | tr '\n' ' ')
[ "$lines" = "int4/32 int2+2/32 " ] || { echo "found lines of '$lines': $said"; exit 1; }

said=$("$@" $quick --quantize 2048 72)
lines=$(echo "$said" | sed 's/^quantize *\([0-9]*\) .* blocks of \([0-9]*\) .*/\1 in \2,/' | tr '\n' ' ')
[ "$lines" = "2048 in 64, 72 in 8, " ] || { echo "found lines of '$lines': $said"; exit 1; }
