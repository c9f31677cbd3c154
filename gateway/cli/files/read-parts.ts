import { unpack } from "../../../shared/content/pack.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import type {
  FileCopy,
  FileHeader,
  FileTrailer,
  PackedBytes,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { StagedFile } from "../../../shared/root/root-handle.ts";
import { freeReceived } from "../../../shared/rpc/chunk-memory.ts";
import { type DeltaBase, fromWireCopy } from "../../../shared/tree/delta.ts";

/** The messages of a read, taken one after the other. Disposing ends the call. */
export interface Parts extends AsyncDisposable {
  /** The first message. */
  header(): Promise<FileHeader>;
  /** Writes every part into the stage and gives the trailer. Cut off while it waits, it leaves the stage to be kept. */
  fill(stage: StagedFile, options: FillOptions): Promise<FileTrailer>;
}

/** What `Parts.fill` takes. */
export interface FillOptions {
  /** As the header says it: `INTEGRITY_FAILURE` for what would stand behind that. */
  readonly announcedBytes: number;
  /** So many bytes came. */
  readonly onBytes: (bytes: number) => void;
  /** So many bytes were copied from what is here. */
  readonly onReused: (bytes: number) => void;
  /** Where copies are taken from; without it none may come. */
  readonly base?: DeltaBase | undefined;
}

type ReadMessage = { readonly part: ReadPart };
type ReadPart =
  | { readonly case: "header"; readonly value: FileHeader }
  | { readonly case: "trailer"; readonly value: FileTrailer }
  | { readonly case: "chunk"; readonly value: Uint8Array }
  | { readonly case: "copy"; readonly value: FileCopy }
  | { readonly case: "packed"; readonly value: PackedBytes }
  | { readonly case: undefined; readonly value?: undefined };

/** Takes a read apart: header, bytes, trailer; `INTEGRITY_FAILURE` for anything else. */
export function openParts(messages: AsyncIterable<ReadMessage>): Parts {
  const iterator = messages[Symbol.asyncIterator]();
  const next = async (): Promise<ReadPart> => {
    const result = await iterator.next();
    if (result.done === true) throw cutOff();
    return result.value.part;
  };
  return {
    header: async () => {
      const part = await next();
      if (part.case === "header") return part.value;
      throw new Fault("INTEGRITY_FAILURE", "the file came without its header");
    },
    fill: async (stage, { announcedBytes, onBytes, onReused, base }) => {
      for (;;) {
        stage.keep(true);
        const part = await next();
        stage.keep(false);
        if (part.case === "trailer") return part.value;
        if (part.case === "copy" && base) {
          const copy = fromWireCopy(part.value);
          if (stage.sizeBytes + copy.sizeBytes > announcedBytes) throw tooMuch();
          await base.copyTo(stage, copy, () => onReused(0));
          onReused(copy.sizeBytes);
          continue;
        }
        if (part.case === "packed") {
          const { content, sizeBytes } = part.value;
          if (stage.sizeBytes + sizeBytes > announcedBytes) throw tooMuch();
          await stage.write(await unpack(content, sizeBytes));
          onBytes(sizeBytes);
          continue;
        }
        if (part.case !== "chunk") throw new Fault("INTEGRITY_FAILURE", "the file came in an unknown form");
        const { byteLength } = part.value;
        if (stage.sizeBytes + byteLength > announcedBytes) throw tooMuch();
        await stage.write(part.value);
        freeReceived(part.value);
        onBytes(byteLength);
      }
    },
    [Symbol.asyncDispose]: async () => {
      await iterator.return?.();
    },
  };
}

function tooMuch(): Fault {
  return new Fault(
    "INTEGRITY_FAILURE",
    "more came of the file than was announced: it grew while it was read",
    {
      hint: "repeat the command",
    },
  );
}

function cutOff(): Fault {
  return new Fault("INTEGRITY_FAILURE", "the file was cut off before its end", {
    hint: "repeat the command",
  });
}
