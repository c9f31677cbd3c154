import { parseAddress } from "../../shared/identity/address.ts";
import { type FaultProxy, startFaultProxy } from "./fault-proxy.ts";
import { startGateway, type StartGatewayOptions, type TestGateway } from "./start-gateway.ts";

/** A gateway whose join codes lead through a line that can be slowed, cut and mended. */
export interface GatewayBehindProxy extends AsyncDisposable {
  readonly gateway: TestGateway;
  /** `up` is from the node to the gateway. */
  readonly proxy: FaultProxy;
}

/** Starts a gateway behind a proxy, which stays the same over restarts of the gateway. */
export async function startGatewayBehindProxy(
  options: Omit<StartGatewayOptions, "args"> = {},
): Promise<GatewayBehindProxy> {
  await using stack = new AsyncDisposableStack();
  // The codes need the proxy's port before the gateway has one.
  const proxy = stack.use(await startFaultProxy({ targetPort: 9 }));
  const gateway = stack.use(
    await startGateway({ ...options, args: ["--advertise", `127.0.0.1:${proxy.port}`] }),
  );
  proxy.retarget(parseAddress(gateway.link, "link").port);
  const owned = stack.move();
  return { gateway, proxy, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
