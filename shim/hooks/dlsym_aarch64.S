// dlsym for aarch64; why it is not a C function: see dlsym_x86_64.S.
    .text
    .globl dlsym
    .type dlsym, %function
dlsym:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset 29, -32
    .cfi_offset 30, -24
    stp x0, x1, [sp, #16]
    bl cuheap_route_dlsym
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_def_cfa_offset 0
    .cfi_restore 29
    .cfi_restore 30
    br x16
    .cfi_endproc
    .size dlsym, .-dlsym
    .section .note.GNU-stack,"",%progbits
