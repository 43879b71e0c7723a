// Nothing of its own: see CMakeLists.txt.
