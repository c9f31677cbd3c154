/** Bytes ready to be sent. grpc-js takes it in place of a Buffer and copies it once, into the frame that it writes. */
export interface Encoded {
  /** Bytes in all. */
  readonly length: number;
  /** The same; grpc-js reads one on its client and the other on its server. */
  readonly byteLength: number;
  /** Writes all bytes to `target` from `targetStart` on. */
  copy(target: Uint8Array, targetStart?: number): number;
}

/** Bytes as they are, without a copy; they must not change until they are sent. */
export function encodedOf(bytes: Uint8Array): Encoded & Uint8Array {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** A small head and a payload behind it, without a copy; `onCopied` is called after each copy. */
export function joinEncoded(head: Uint8Array, payload: Encoded, onCopied?: () => void): Encoded {
  const length = head.byteLength + payload.byteLength;
  return {
    length,
    byteLength: length,
    copy: (target, targetStart = 0) => {
      target.set(head, targetStart);
      payload.copy(target, targetStart + head.byteLength);
      onCopied?.();
      return length;
    },
  };
}

/** The bytes in one piece; copies unless they are one already. */
export function bytesOf(encoded: Encoded): Buffer {
  if (Buffer.isBuffer(encoded)) return encoded;
  const bytes = Buffer.allocUnsafe(encoded.byteLength);
  encoded.copy(bytes, 0);
  return bytes;
}
