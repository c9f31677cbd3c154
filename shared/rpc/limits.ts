/** Numbers of the wire that both sides must agree on; none is configurable. */

/** One encoded message, in bytes; checked before it is written. */
export const maxMessageBytes: number = 4 * 1024 * 1024;

/** The library's own limit: a message in its envelope. */
export const maxEnvelopeBytes: number = maxMessageBytes + 4096;

/** What a receiver lets one HTTP/2 stream have in flight, in bytes. */
export const streamWindowBytes: number = 8 * 1024 * 1024;

/** What a receiver lets one HTTP/2 connection have in flight, in bytes. */
export const connectionWindowBytes: number = 16 * 1024 * 1024;

/** HTTP/2 streams on one connection. */
export const maxStreamsCount = 2048;

/** Connect, handshake and first words, in all. */
export const connectTimeoutMs = 20_000;

/** A node keeps the outcome of a call for so long after the call ended, in milliseconds. */
export const keepOutcomeMs: number = 10 * 60 * 1000;

/** A message of a call that travels in the frame which begins or ends the call may be so long, in bytes. */
export const shortMessageBytes: number = 16 * 1024;
