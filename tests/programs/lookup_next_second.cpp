extern "C" int probe() { return 7; }
