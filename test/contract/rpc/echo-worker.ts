import { serveStdio } from "../../../shared/rpc/stdio.ts";
import { echoServices } from "./echo-services.ts";

const server = serveStdio({ services: echoServices(), input: process.stdin, output: process.stdout });
await server.closed;
