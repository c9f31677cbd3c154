import { startLinks } from "../../../gateway/link/start-links.ts";
import { startGrpcServer } from "../../../shared/rpc/grpc-server.ts";
import { createServerCredentials, type ServerTls } from "../../../shared/rpc/server-credentials.ts";
import { identifyByName } from "../../contract/rpc/open-link.ts";

// A gateway's links in a process of their own: `gateway-process.ts PORT`, its TLS material as JSON on standard input. Says
// `ready PORT`, and on SIGUSR2 how much memory it holds once the garbage is gone: `memory BYTES`.
const tls: ServerTls = JSON.parse(Buffer.concat(await Array.fromAsync(process.stdin)).toString());
const host = startLinks({ identify: identifyByName, admission: { perSecond: 1000, burstCount: 5000 } });
const { credentials } = createServerCredentials(tls);
const server = await startGrpcServer({
  services: [host.service, host.questions],
  address: `127.0.0.1:${process.argv[2] ?? "0"}`,
  credentials,
});
process.on("SIGUSR2", () => {
  for (let turn = 0; turn < 3; turn += 1) globalThis.gc?.();
  process.stdout.write(`memory ${process.memoryUsage.rss()}\n`);
});
process.stdout.write(`ready ${server.port}\n`);
