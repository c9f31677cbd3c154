import {
  create,
  fromBinary,
  getOption,
  hasOption,
  toBinary,
  type DescField,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Fault } from "../fault/fault.ts";
import { bulk } from "../gen/fairlead/v1/options_pb.ts";
import { findRelease, markReceived } from "./chunk-memory.ts";
import { encodedOf, joinEncoded, type Encoded } from "./encoded.ts";
import { maxMessageBytes } from "./limits.ts";

type Fields = Readonly<Record<string, unknown>>;

/** How the bulk field of one message type is found. */
interface BulkField {
  readonly number: number;
  /** The field's bytes when they are set. */
  readonly read: (message: Fields) => Uint8Array | undefined;
  /** The same message with the bulk field left out. */
  readonly without: (message: Fields) => Fields;
}

const bulkFields = new WeakMap<DescMessage, { readonly field: BulkField | undefined }>();

function bulkFieldOf(schema: DescMessage): BulkField | undefined {
  const known = bulkFields.get(schema);
  if (known) return known.field;
  const field = schema.fields.find((candidate) => hasOption(candidate, bulk) && getOption(candidate, bulk));
  const found = field && toBulkField(field);
  bulkFields.set(schema, { field: found });
  return found;
}

function toBulkField(field: DescField): BulkField {
  const { number, localName, oneof } = field;
  if (!oneof) {
    return {
      number,
      read: (message) => nonEmpty(message[localName]),
      without: (message) => ({ ...message, [localName]: new Uint8Array() }),
    };
  }
  const group = oneof.localName;
  return {
    number,
    read: (message) => {
      const chosen = message[group];
      if (typeof chosen !== "object" || chosen === null || !("case" in chosen) || !("value" in chosen)) {
        return undefined;
      }
      return chosen.case === localName && chosen.value instanceof Uint8Array ? chosen.value : undefined;
    },
    without: (message) => ({ ...message, [group]: { case: undefined } }),
  };
}

function nonEmpty(value: unknown): Uint8Array | undefined {
  return value instanceof Uint8Array && value.byteLength > 0 ? value : undefined;
}

/** Tag and length of a length-delimited field. */
export function fieldHead(number: number, lengthBytes: number): Uint8Array {
  return new BinaryWriter().tag(number, WireType.LengthDelimited).uint32(lengthBytes).finish();
}

function concatHeads(first: Uint8Array, second: Uint8Array): Uint8Array {
  return first.byteLength === 0 ? second : Buffer.concat([first, second]);
}

/**
 * Encodes a message. A field marked `bulk` is not copied: it stands behind the other fields, and its bytes must not
 * change until the message is sent. `TOO_LARGE` above 4 MiB.
 */
export function encodeMessage<D extends DescMessage>(schema: D, init: MessageInitShape<D>): Encoded {
  const message = create(schema, init);
  const encoded = encodeUnchecked(schema, message);
  assertWithinMessage(encoded.byteLength, schema.typeName);
  return encoded;
}

function encodeUnchecked<D extends DescMessage>(schema: D, message: MessageShape<D>): Encoded {
  const field = bulkFieldOf(schema);
  // The message is an object of plain fields; only the descriptor knows their names.
  const payload = field?.read(message as unknown as Fields);
  if (!field || !payload) return encodedOf(toBinary(schema, message));
  const rest = field.without(message as unknown as Fields) as unknown as MessageShape<D>;
  const head = concatHeads(toBinary(schema, rest), fieldHead(field.number, payload.byteLength));
  return joinEncoded(head, encodedOf(payload), findRelease(payload));
}

/** Fails with `TOO_LARGE` when an encoded message is above 4 MiB. */
export function assertWithinMessage(sizeBytes: number, what: string): void {
  if (sizeBytes <= maxMessageBytes) return;
  throw new Fault("TOO_LARGE", `a ${what} of ${sizeBytes} bytes is larger than ${maxMessageBytes}`, {
    details: { limit: maxMessageBytes, actual: sizeBytes },
  });
}

/**
 * Decodes a message; `bytes` fields are views of `bytes`, which its taker may give back. `TOO_LARGE` above 4 MiB, `INVALID_ARGUMENT` when it is no
 * such message.
 */
export function decodeMessage<D extends DescMessage>(schema: D, bytes: Uint8Array): MessageShape<D> {
  assertWithinMessage(bytes.byteLength, schema.typeName);
  markReceived(bytes);
  return decodeEnvelope(schema, bytes);
}

/** Decodes what may hold a whole message and a head; its size was limited where it was read. */
export function decodeEnvelope<D extends DescMessage>(schema: D, bytes: Uint8Array): MessageShape<D> {
  try {
    return fromBinary(schema, bytes);
  } catch (error) {
    throw new Fault("INVALID_ARGUMENT", `the bytes are no ${schema.typeName}`, {
      details: { field: "message" },
      cause: error,
    });
  }
}
