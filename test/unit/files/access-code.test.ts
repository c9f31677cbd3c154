import { expect } from "vitest";
import { workspaceUnavailable } from "../../../gateway/files/unavailable.ts";
import { isWorkspaceUnavailable } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { startGrpcServer } from "../../../shared/rpc/grpc-server.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { proves } from "../../support/proves.ts";

proves(
  "files.access-code-not-text",
  "a workspace that cannot be reached is known by its code, however deep it lies, and never by its words",
  async () => {
    const fault = workspaceUnavailable("stopped", { shown: "devbox:/app" });
    let wrapped: Error = fault;
    for (let level = 1; level <= 5; level += 1) wrapped = new Error(`level ${level}`, { cause: wrapped });
    expect(isWorkspaceUnavailable(fault)).toBe(true);
    expect(isWorkspaceUnavailable(wrapped)).toBe(true);
    expect(isWorkspaceUnavailable(new Error(fault.message))).toBe(false);
    expect(
      isWorkspaceUnavailable(new Error("x", { cause: new Error(`${fault.code}: ${fault.message}`) })),
    ).toBe(false);

    await using server = await startGrpcServer({
      services: [serve(Files, { stat: () => Promise.reject(wrapped) })],
      address: "127.0.0.1:0",
      credentials: "insecure",
      clock: systemClock,
    });
    await using client = openGrpcClient({ address: server.address, security: "insecure" });
    const error: unknown = await client
      .client(Files)
      .stat({ workspace: "app", path: "" })
      .catch((reason: unknown) => reason);
    expect(isWorkspaceUnavailable(error)).toBe(true);
    expect(error).toMatchObject({ details: { reason: "stopped" }, retryable: true });
  },
);
