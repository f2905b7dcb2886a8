#include "fiber.hpp"

#include <cstdint>

// Saves what the platform's calling convention says a call keeps, and changes stacks.
extern "C" void maru_sim_switch(void** from, void* to);
extern "C" void maru_sim_start();

#if defined(__x86_64__)
asm(R"(
.text
.globl maru_sim_switch
.type maru_sim_switch, @function
maru_sim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.globl maru_sim_start
.type maru_sim_start, @function
maru_sim_start:
    movq %r12, %rdi
    xorl %ebp, %ebp
    callq *%r13
    ud2
.section .note.GNU-stack,"",@progbits
.text
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl maru_sim_switch
.type maru_sim_switch, %function
maru_sim_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.globl maru_sim_start
.type maru_sim_start, %function
maru_sim_start:
    mov x0, x19
    mov x29, xzr
    blr x20
    brk #0
.section .note.GNU-stack,"",%progbits
.text
)");
#else
#error "the simulator knows x86-64 and AArch64"
#endif

namespace maru::sim {

void Fiber::prepare(void (*body)(void*), void* argument) {
    if (!stack_) stack_ = std::make_unique<std::byte[]>(stack_bytes);
    const auto top = (reinterpret_cast<std::uintptr_t>(stack_.get()) + stack_bytes) & ~std::uintptr_t{63};
#if defined(__x86_64__)
    auto* frame = reinterpret_cast<std::uintptr_t*>(top) - 9;
    frame[0] = 0;                                           // r15
    frame[1] = 0;                                           // r14
    frame[2] = reinterpret_cast<std::uintptr_t>(body);      // r13
    frame[3] = reinterpret_cast<std::uintptr_t>(argument);  // r12
    frame[4] = 0;                                           // rbx
    frame[5] = 0;                                           // rbp
    frame[6] = reinterpret_cast<std::uintptr_t>(&maru_sim_start);
    frame[7] = 0;
    frame[8] = 0;
#else
    auto* frame = reinterpret_cast<std::uintptr_t*>(top - 160);
    for (int i = 0; i < 20; ++i)
        frame[i] = 0;
    frame[0] = reinterpret_cast<std::uintptr_t>(argument);
    frame[1] = reinterpret_cast<std::uintptr_t>(body);
    frame[11] = reinterpret_cast<std::uintptr_t>(&maru_sim_start);
#endif
    stack_pointer_ = frame;
}

void Fiber::change(Fiber& from, Fiber& to) {
    maru_sim_switch(&from.stack_pointer_, to.stack_pointer_);
}

}  // namespace maru::sim
