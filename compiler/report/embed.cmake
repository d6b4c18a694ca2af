# Writes a C++ file with the text of files: cmake -DOUTPUT=F -DPARTS="NAME=FILE;..." -DMODULES="NAME=FILE;..." -P embed.cmake
# MODULES are AMD modules, which become one script, "vega.js", in their order; the loader below has their exports.
set(loader [=[
const moduleExports = {};
let moduleName = "";
function define(names, make) {
  const exports = {};
  make(...names.map(name => name === "exports" ? exports : moduleExports[name]));
  moduleExports[moduleName] = exports;
}
define.amd = true;
]=])

# Appends the bytes of `text` as a part. A list of characters, as string literals have a limit in other compilers.
function(append_part name hex)
  string(MAKE_C_IDENTIFIER "${name}" identifier)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," characters "${hex}")
  string(REGEX REPLACE "(('[^']*',){16})" "\\1\n" characters "${characters}")
  file(APPEND "${OUTPUT}.new" "constexpr char k_${identifier}[] = {\n${characters}\n};\n")
  set_property(GLOBAL APPEND_STRING PROPERTY parts
    "    {\"${name}\", std::string_view(k_${identifier}, sizeof k_${identifier})},\n")
endfunction()

file(WRITE "${OUTPUT}.new" "#include \"compiler/report/PageParts.h\"\n\n#include <string_view>\n\nnamespace moec {\n\nnamespace {\n\n")
string(HEX "${loader}" script)
foreach(module ${MODULES})
  string(REGEX MATCH "^([^=]*)=(.*)$" matched "${module}")
  set(name "${CMAKE_MATCH_1}")
  file(READ "${CMAKE_MATCH_2}" text HEX)
  string(HEX "moduleName = \"${name}\";\n" naming)
  # The last line of a module names a map of its source, which a browser would try to load.
  string(HEX "//# sourceMappingURL" mapping)
  string(REGEX REPLACE "${mapping}([0-9a-f])*$" "" text "${text}")
  string(APPEND script "${naming}${text}0a")
endforeach()
append_part("vega.js" "${script}")
foreach(part ${PARTS})
  string(REGEX MATCH "^([^=]*)=(.*)$" matched "${part}")
  set(name "${CMAKE_MATCH_1}")
  file(READ "${CMAKE_MATCH_2}" text HEX)
  append_part("${name}" "${text}")
endforeach()
get_property(parts GLOBAL PROPERTY parts)
file(APPEND "${OUTPUT}.new" "\nconstexpr PagePart kParts[] = {\n${parts}};\n\n} // namespace\n\nstd::span<const PagePart> pageParts() {\n  return kParts;\n}\n\n} // namespace moec\n")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
