//! The schemes, one file each. Every file begins with the same header: the idea, a drawing of one
//! write, what is durable at acknowledgement, what survives one and two failures, device writes
//! per user write, and the source.
