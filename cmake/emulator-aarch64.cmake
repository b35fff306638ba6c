# Where Debian's packages for cross-building put the C and C++ libraries of 64-bit ARM, and how its programs are run here.
set(TWINRAIL_AARCH64_ROOT /usr/aarch64-linux-gnu)
find_program(TWINRAIL_AARCH64_COMPILER aarch64-linux-gnu-g++)
find_program(TWINRAIL_AARCH64_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
set(TWINRAIL_AARCH64_EMULATOR ${TWINRAIL_AARCH64_QEMU} -L ${TWINRAIL_AARCH64_ROOT})
