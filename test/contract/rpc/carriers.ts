import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { DescService } from "@bufbuild/protobuf";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { startGrpcServer } from "../../../shared/rpc/grpc-server.ts";
import { createServerCredentials } from "../../../shared/rpc/server-credentials.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { openStdioClient } from "../../../shared/rpc/stdio.ts";
import { echoServices } from "./echo-services.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "./open-link.ts";
import { makeAuthority } from "./throwaway-certificates.ts";

/** Something that carries calls to the echo services. */
export interface Carrier extends AsyncDisposable {
  client<S extends DescService>(service: S): Client<S>;
}

/** A gRPC server and a client of it, over mutual TLS on loopback. */
export async function openDirect(): Promise<Carrier> {
  const authority = await makeAuthority();
  const { credentials } = createServerCredentials(authority.server);
  const server = await startGrpcServer({ services: echoServices(), address: "127.0.0.1:0", credentials });
  const client = openGrpcClient({ address: server.address, security: () => authority.client("caller") });
  return {
    client: (service) => client.client(service),
    [Symbol.asyncDispose]: async () => {
      await client[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** A worker process, spoken to over its pipes. */
export async function openStdio(): Promise<Carrier> {
  const program = fileURLToPath(new URL("echo-worker.ts", import.meta.url));
  const worker = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
  const client = openStdioClient({ input: worker.stdout, output: worker.stdin });
  return {
    client: (service) => client.client(service),
    [Symbol.asyncDispose]: async () => {
      const exited = once(worker, "exit");
      await client[Symbol.asyncDispose]();
      await exited;
    },
  };
}

/** A node and its gateway: calls go over the node's link. */
export async function openLink(): Promise<Carrier> {
  return await openLinkWith({ shortCalls: true });
}

/** The same with a node of an earlier version: every message travels in a frame of its own. */
export async function openEarlierLink(): Promise<Carrier> {
  return await openLinkWith({ shortCalls: false });
}

async function openLinkWith(options: { readonly shortCalls: boolean }): Promise<Carrier> {
  const gateway = await openLinkGateway();
  const node = await openLinkNode(gateway, { services: echoServices(), ...options });
  const link = await whenLinked(gateway);
  return {
    client: (service) => link.client(service),
    [Symbol.asyncDispose]: async () => {
      await node[Symbol.asyncDispose]();
      await gateway[Symbol.asyncDispose]();
    },
  };
}
