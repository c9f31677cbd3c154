import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../fault/fault.ts";
import {
  GrantSchema,
  NodeLinkServeRequestSchema,
  NodeLinkServeResponseSchema,
  type NodeLinkServeRequest,
  type NodeLinkServeResponse,
  type OpenSchema,
} from "../../gen/fairlead/v1/link_pb.ts";
import { decodeEnvelope, fieldHead } from "../codec.ts";
import { encodedOf, joinEncoded, type Encoded } from "../encoded.ts";
import { toWireFault } from "../fault-wire.ts";

/**
 * Frames of one call. The caller sends `Open`, `Message`, `End`, `Grant`; the one who answers sends `Message`, `Grant`,
 * `Status`. `Status` is its last frame of a call.
 */

/** A frame from the caller. */
export type CallerFrame = NodeLinkServeResponse["frame"];

/** A frame from the one who answers. */
export type AnswerFrame = NodeLinkServeRequest["frame"];

/** Both directions give `message` the same number, and so the same bytes. */
const messageField = 2;

/** A message in its frame, uncopied. */
export function messageFrame(message: Encoded): Encoded {
  return joinEncoded(fieldHead(messageField, message.byteLength), message);
}

function callerFrame(frame: MessageInitShape<typeof NodeLinkServeResponseSchema>["frame"]): Encoded {
  return encodedOf(
    toBinary(
      NodeLinkServeResponseSchema,
      create(NodeLinkServeResponseSchema, { frame: frame ?? { case: undefined } }),
    ),
  );
}

function answerFrame(frame: MessageInitShape<typeof NodeLinkServeRequestSchema>["frame"]): Encoded {
  return encodedOf(
    toBinary(
      NodeLinkServeRequestSchema,
      create(NodeLinkServeRequestSchema, { frame: frame ?? { case: undefined } }),
    ),
  );
}

/** Begins a call. */
export function openFrame(open: MessageInitShape<typeof OpenSchema>): Encoded {
  return callerFrame({ case: "open", value: open });
}

/** No more messages of the request. */
export const endFrame: Encoded = callerFrame({ case: "end", value: {} });

/** More credit for the one who answers. */
export function callerGrantFrame(bytes: number, windowBytes: number): Encoded {
  return callerFrame({ case: "grant", value: grantOf(bytes, windowBytes) });
}

/** More credit for the caller. */
export function answerGrantFrame(bytes: number, windowBytes: number): Encoded {
  return answerFrame({ case: "grant", value: grantOf(bytes, windowBytes) });
}

function grantOf(bytes: number, windowBytes: number) {
  return create(GrantSchema, { bytes: BigInt(bytes), window: BigInt(windowBytes) });
}

/** A stream that is free. */
export function parkedFrame(generation: bigint): Encoded {
  return answerFrame({ case: "parked", value: { generation } });
}

/** How the call ended; the id tells it from one that ended on the same stream before. */
export function statusFrame(callId: string, fault: Fault | undefined): Encoded {
  return answerFrame({ case: "status", value: { callId, ...(fault ? { fault: toWireFault(fault) } : {}) } });
}

/** Reads a frame of the caller; `INVALID_ARGUMENT` when it is none. */
export function readCallerFrame(bytes: Uint8Array): CallerFrame {
  return decodeEnvelope(NodeLinkServeResponseSchema, bytes).frame;
}

/** Reads a frame of the one who answers; `INVALID_ARGUMENT` when it is none. */
export function readAnswerFrame(bytes: Uint8Array): AnswerFrame {
  return decodeEnvelope(NodeLinkServeRequestSchema, bytes).frame;
}
