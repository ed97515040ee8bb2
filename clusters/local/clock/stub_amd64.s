#include "textflag.h"

// The code that the functions of the vDSO jump to. It is copied into the vDSO of
// another process, so it refers to nothing but its arguments. Each function
// ends in END, by which its length is found; the constants are replaced in the
// copy. Registers as in the System V convention.

#define BASE   $0x62ba5e62ba5e62ba
#define RATE   $0x724a7e724a7e724a
#define OFFSET $0x0ff5e70ff5e70ff5
#define END    BYTE $0xe5; BYTE $0x0d; BYTE $0xe5; BYTE $0x0d; BYTE $0xe5; BYTE $0x0d; BYTE $0xe5; BYTE $0x0d

// SHIFT turns the real time in AX into the shifted one, in nanoseconds since
// the epoch: AX + (AX - base) * rate / 2^32 + offset. It uses DX, R8 and R9.
#define SHIFT \
	MOVQ AX, R8; \
	MOVQ BASE, R9; \
	SUBQ R9, AX; \
	MOVQ RATE, R9; \
	IMULQ R9; \
	SHRQ $32, DX, AX; \
	ADDQ R8, AX; \
	MOVQ OFFSET, R9; \
	ADDQ R9, AX

// DIVIDE divides AX by n; the remainder goes to DX. It uses CX.
#define DIVIDE(n) \
	XORL DX, DX; \
	MOVL $n, CX; \
	DIVQ CX

// int clock_gettime(clockid_t DI, struct timespec *SI)
TEXT clockGettime<>(SB), NOSPLIT|NOFRAME, $0
	MOVL $228, AX // clock_gettime
	SYSCALL
	TESTL AX, AX
	JNE  done
	CMPL DI, $0 // CLOCK_REALTIME
	JEQ  shift
	CMPL DI, $5 // CLOCK_REALTIME_COARSE
	JEQ  shift
	CMPL DI, $11 // CLOCK_TAI
	JEQ  shift
done:
	RET
shift:
	IMUL3Q $1000000000, 0(SI), AX
	ADDQ 8(SI), AX
	SHIFT
	DIVIDE(1000000000)
	MOVQ AX, 0(SI)
	MOVQ DX, 8(SI)
	XORL AX, AX
	RET
	END

// int gettimeofday(struct timeval *DI, struct timezone *SI)
TEXT gettimeofday<>(SB), NOSPLIT|NOFRAME, $0
	MOVL $96, AX // gettimeofday
	SYSCALL
	TESTL AX, AX
	JNE  done
	TESTQ DI, DI
	JEQ  done
	IMUL3Q $1000000, 0(DI), AX
	ADDQ 8(DI), AX
	IMUL3Q $1000, AX, AX
	SHIFT
	DIVIDE(1000)
	DIVIDE(1000000)
	MOVQ AX, 0(DI)
	MOVQ DX, 8(DI)
	XORL AX, AX
done:
	RET
	END

// time_t time(time_t *DI)
TEXT timeSeconds<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ DI
	SUBQ $16, SP
	XORL DI, DI // CLOCK_REALTIME
	MOVQ SP, SI
	MOVL $228, AX // clock_gettime
	SYSCALL
	IMUL3Q $1000000000, 0(SI), AX
	ADDQ 8(SI), AX
	SHIFT
	DIVIDE(1000000000)
	ADDQ $16, SP
	POPQ DI
	TESTQ DI, DI
	JEQ  done
	MOVQ AX, 0(DI)
done:
	RET
	END

// func templates() (clockGettimeCode, gettimeofdayCode, timeCode uintptr)
TEXT ·templates(SB), NOSPLIT, $0-24
	LEAQ clockGettime<>(SB), AX
	MOVQ AX, clockGettimeCode+0(FP)
	LEAQ gettimeofday<>(SB), AX
	MOVQ AX, gettimeofdayCode+8(FP)
	LEAQ timeSeconds<>(SB), AX
	MOVQ AX, timeCode+16(FP)
	RET
