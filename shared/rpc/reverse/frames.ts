import { create, toBinary } from "@bufbuild/protobuf";
import type { Fault } from "../../fault/fault.ts";
import {
  EndSchema,
  GrantSchema,
  NodeLinkServeRequestSchema,
  NodeLinkServeResponseSchema,
  ParkedSchema,
  type NodeLinkServeRequest,
  type NodeLinkServeResponse,
  type Open,
  type Status,
} from "../../gen/fairlead/v1/link_pb.ts";
import { decodeEnvelope, fieldHead } from "../codec.ts";
import { bytesOf, encodedOf, joinEncoded, type Encoded } from "../encoded.ts";
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

// Every call makes such frames: they are written as the whole messages that they are, which `create` would make of them.

function callerFrame(frame: CallerFrame): Encoded {
  const whole: NodeLinkServeResponse = { $typeName: "fairlead.v1.NodeLinkServeResponse", frame };
  return encodedOf(toBinary(NodeLinkServeResponseSchema, whole));
}

function answerFrame(frame: AnswerFrame): Encoded {
  const whole: NodeLinkServeRequest = { $typeName: "fairlead.v1.NodeLinkServeRequest", frame };
  return encodedOf(toBinary(NodeLinkServeRequestSchema, whole));
}

/** Begins a call. */
export function openFrame(open: Omit<Open, "$typeName">): Encoded {
  return callerFrame({ case: "open", value: { ...open, $typeName: "fairlead.v1.Open" } });
}

/** No more messages of the request. */
export const endFrame: Encoded = callerFrame({ case: "end", value: create(EndSchema) });

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
  return answerFrame({ case: "parked", value: create(ParkedSchema, { generation }) });
}

/** How the call ended, with the one message of its answer unless that was sent before. The id tells it from an earlier call. */
export function statusFrame(callId: string, fault: Fault | undefined, answer?: Encoded): Encoded {
  const value: Status = { $typeName: "fairlead.v1.Status", callId };
  if (fault) value.fault = toWireFault(fault);
  if (answer) value.answer = bytesOf(answer);
  return answerFrame({ case: "status", value });
}

/** Reads a frame of the caller; `INVALID_ARGUMENT` when it is none. */
export function readCallerFrame(bytes: Uint8Array): CallerFrame {
  return decodeEnvelope(NodeLinkServeResponseSchema, bytes).frame;
}

/** Reads a frame of the one who answers; `INVALID_ARGUMENT` when it is none. */
export function readAnswerFrame(bytes: Uint8Array): AnswerFrame {
  return decodeEnvelope(NodeLinkServeRequestSchema, bytes).frame;
}
