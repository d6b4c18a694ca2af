#!/bin/sh
# usage: check_symbols.sh NM OBJECT...
# Files compiled for an instruction set must not define anything that another file could define too
# (weak symbols: inline functions, templates): the linker keeps one copy for the whole program, and if
# it is theirs, processors without those instructions execute it. Their only external symbol is the
# function that returns the table.
set -eu
nm=$1
shift
[ $# -gt 0 ] || { echo "no object files"; exit 1; }
for object in "$@"; do
  # Sanitizers add DW.ref...: an address, no code.
  found=$("$nm" --defined-only "$object" |
    awk '($2 !~ /^[a-z]$/ || $2 ~ /^[uvw]$/) && $3 !~ /^DW\.ref\./ { print $2, $3 }')
  case $found in
    "T _ZN5moert11avx2KernelsEv" | "T _ZN5moert13avx512KernelsEv") ;;
    "T _ZN5moert11neonKernelsEv" | "T _ZN5moert14dotprodKernelsEv" | "T _ZN5moert11i8mmKernelsEv") ;;
    *) echo "$object defines more than its table:"; echo "$found"; exit 1 ;;
  esac
done
