# Makes a source of the lines of C++ in docs/recipes.md: a function of each block, which need only compile. An error names
# the line of the page.
BEGIN { print "#include \"recipe_code.hpp\"\n" }
/^```cpp$/ {
  printf "[[maybe_unused]] static void recipe_%d(RECIPE_PARAMETERS) {{\n#line %d \"docs/recipes.md\"\n", ++blocks, NR + 1
  inside = 1
  next
}
/^```/ && inside { print "}}"; inside = 0 }
inside
