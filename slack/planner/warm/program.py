"""The program of warm pods: it ends at once, with exit code 0. Made here, by instructions, for each processor.

Containers of warm pods exist for their images, which may have no shell and no other program that ends. So each runs
this one, of some 130 bytes, which needs nothing of the image. It is a static ELF file with one system call, `exit(0)`.
It is handed to the pods as a file of a ConfigMap, so that no further image is pulled for it.
"""

import struct

_LOAD_ADDRESS = 0x400000
_HEADER_BYTES, _PROGRAM_HEADER_BYTES = 64, 56
_EXECUTABLE, _LOADED, _READ_AND_EXECUTE = 2, 1, 5
_LITTLE, _BIG = "<", ">"

_PROCESSORS: dict[str, tuple[int, str, int, str]] = {
    # xor edi, edi; mov eax, 60; syscall
    "amd64": (62, _LITTLE, 0, "31ff b83c000000 0f05"),
    # mov x8, 93; mov x0, 0; svc 0
    "arm64": (183, _LITTLE, 0, "a80b80d2 000080d2 010000d4"),
    # li a7, 93; li a0, 0; ecall
    "riscv64": (243, _LITTLE, 0, "9308d005 13050000 73000000"),
    # li r0, 1; li r3, 0; sc
    "ppc64le": (21, _LITTLE, 2, "01000038 00006038 02000044"),
    # lghi r2, 0; svc 1
    "s390x": (22, _BIG, 0, "a7290000 0a01"),
}
"""By architecture as nodes name it: ELF machine, byte order, ELF flags, instructions."""
ARCHITECTURES = frozenset(_PROCESSORS)


def exit_program(architecture: str) -> bytes:
    """Return the program for a processor.

    Raises:
        KeyError: for a processor that is not known.
    """
    machine, order, flags, instructions = _PROCESSORS[architecture]
    code = bytes.fromhex(instructions)
    begin = _HEADER_BYTES + _PROGRAM_HEADER_BYTES
    size = begin + len(code)
    ident = b"\x7fELF" + bytes([2, 1 if order == _LITTLE else 2, 1]) + bytes(9)
    header = struct.pack(
        f"{order}HHIQQQIHHHHHH",
        *(_EXECUTABLE, machine, 1, _LOAD_ADDRESS + begin, _HEADER_BYTES, 0, flags),
        *(_HEADER_BYTES, _PROGRAM_HEADER_BYTES, 1, 0, 0, 0),
    )
    segment = struct.pack(
        f"{order}IIQQQQQQ", _LOADED, _READ_AND_EXECUTE, 0, _LOAD_ADDRESS, _LOAD_ADDRESS, size, size, 0x1000
    )
    return ident + header + segment + code
