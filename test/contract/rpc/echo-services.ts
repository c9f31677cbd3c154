import { Fault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { NodeLink } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { serve, type ServedService } from "../../../shared/rpc/service.ts";

/** The fault that `Stat` of `fail` raises: every field is set. */
export function wholeFault(): Fault {
  return new Fault("CONFLICT", "the file was changed — ünïcode", {
    hint: "read it again",
    retryable: true,
    details: {
      expected: "sha256:1",
      actual: null,
      list: [1, "two", { three: true }],
      deep: { a: { b: 0.5 } },
    },
  });
}

/** One implementation of every kind of call: what all carriers must carry alike. */
export function echoServices(): readonly ServedService[] {
  return [
    serve(Files, {
      stat: async ({ path }, { signal, callId }) => {
        if (path === "fail") throw wholeFault();
        if (path === "defect") throw new Error("secret at /home/user/secret.txt");
        if (path === "hang")
          await new Promise((_resolve, reject) => signal.addEventListener("abort", reject));
        return { entry: { path, linkTarget: path === "id" ? callId : "" } };
      },
      read: async function* ({ length, path }) {
        yield { part: { case: "header", value: { entry: { path } } } };
        for (let at = 0; at < Number(length); at += 1) {
          yield { part: { case: "chunk", value: Buffer.alloc(1000, at) } };
        }
        if (path === "fail") throw wholeFault();
        yield { part: { case: "trailer", value: { sizeBytes: length, digest: path } } };
      },
      write: async (requests, { take }) => {
        let sizeBytes = 0;
        let path = "";
        for await (const { part } of requests) {
          if (part.case === "header") ({ path } = part.value);
          if (path === "take") take?.();
          if (path === "fail") throw wholeFault();
          if (part.case === "chunk") sizeBytes += part.value.byteLength;
        }
        return { entry: { path, sizeBytes: BigInt(sizeBytes) } };
      },
    }),
    serve(NodeLink, {
      control: async function* (requests) {
        for await (const { kind } of requests) {
          if (kind.case === "drain") throw wholeFault();
          if (kind.case === "ping")
            yield { kind: { case: "pong", value: { sequence: kind.value.sequence } } };
        }
      },
    }),
  ];
}
