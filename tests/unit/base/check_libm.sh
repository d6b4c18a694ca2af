#!/bin/sh
# usage: check_libm.sh NM LIBM OBJECT...
# Object files may not call functions of libm whose results differ from version to version: no bit of an artifact
# or of an answer may depend on them (docs/numbers.md). Ours are in runtime/base/DeterministicMath.h, those of the
# token loop in runtime/exec. Takes the names from the library itself.
set -eu
nm=$1 libm=$2
shift 2
[ $# -gt 0 ] || { echo "no object files"; exit 1; }
[ -r "$libm" ] || { echo "$libm cannot be read: which functions are libm's is not known"; exit 1; }

# IEEE 754 or C defines the results of these exactly, so every libm has the same: operations that are correctly
# rounded (sqrt, fma), exact ones (fmod, remainder, scaling, parts of a number), and rounding to integers.
exact='sqrt fma fmod remainder remquo ldexp scalbn scalbln frexp modf logb ilogb copysign fabs fdim fmin fmax nan nextafter nexttoward
  floor ceil trunc round roundeven rint nearbyint lrint llrint lround llround'

undefined=$("$nm" -A --undefined-only "$@" | sed 's/@.*//')
names=$("$nm" -D --defined-only "$libm" | awk '$2 ~ /^[TWi]$/ { sub(/@.*/, "", $3); print $3 }')
found=$(printf '%s\n' "$undefined" | awk -v names="$names" -v exact="$exact" '
  BEGIN {
    count = split(names, list)
    for (i = 1; i <= count; ++i) refused[list[i]] = 1
    count = split(exact, list)
    for (i = 1; i <= count; ++i) {
      delete refused[list[i]]
      delete refused[list[i] "f"]
      delete refused[list[i] "l"]
    }
  }
  # Vector versions have names of their own.
  ($NF in refused) || $NF ~ /^_ZGV[a-z]/ { sub(/:.*/, "", $1); print $1 ": " $NF }')
[ -z "$found" ] && exit 0
echo "these objects call functions of libm:"
echo "$found"
exit 1
