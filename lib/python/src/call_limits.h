/* Limits that the generated table is checked against at compile time. */
#ifndef LIGERDSL_CALL_LIMITS_H_
#define LIGERDSL_CALL_LIMITS_H_

enum { BIND_MAX_STRUCT = 512, BIND_MAX_TENSORS = 24, BIND_MAX_OPERATIONS = 256 };

#endif /* LIGERDSL_CALL_LIMITS_H_ */
