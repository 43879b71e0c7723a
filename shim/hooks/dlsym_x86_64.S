// dlsym for x86-64. Not a C function, because glibc takes the scope of RTLD_NEXT and RTLD_DEFAULT from the caller's return
// address: a wrapper that calls the real dlsym makes us the caller, and "import torch" hangs in a look-up that finds
// itself (tests/programs/lookup_next). Whatever is not in the hook table is a tail jump that leaves no trace.
    .text
    .globl dlsym
    .type dlsym, @function
dlsym:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call cuheap_route_dlsym
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size dlsym, .-dlsym
    .section .note.GNU-stack,"",@progbits
