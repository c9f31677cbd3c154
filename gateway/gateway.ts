import path from "node:path";
import { faultFromError } from "../shared/fault/fault-from-error.ts";
import { Admin } from "../shared/gen/fairlead/v1/admin_pb.ts";
import { Audit } from "../shared/gen/fairlead/v1/audit_pb.ts";
import { Authority } from "../shared/gen/fairlead/v1/authority_pb.ts";
import { Files } from "../shared/gen/fairlead/v1/files_pb.ts";
import { Policy } from "../shared/gen/fairlead/v1/policy_pb.ts";
import { Sessions } from "../shared/gen/fairlead/v1/sessions_pb.ts";
import { State } from "../shared/gen/fairlead/v1/state_pb.ts";
import { parseListenAddress } from "../shared/identity/address.ts";
import type { Clock } from "../shared/lifetime/clock.ts";
import { Scope } from "../shared/lifetime/scope.ts";
import type { Log } from "../shared/log/log.ts";
import type { Environment } from "../shared/process/environment.ts";
import { type GrpcServer, startGrpcServer } from "../shared/rpc/grpc-server.ts";
import { createServerCredentials, type TlsServerCredentials } from "../shared/rpc/server-credentials.ts";
import { serve, type ServedService, type ServiceImplementation } from "../shared/rpc/service.ts";
import type { GatewaySettings } from "./config/gateway-settings.ts";
import { type Features, startFeatures } from "./features.ts";
import type { CleanUp } from "./fleet/revocation.ts";
import { placeAdminSocket } from "./serve/admin-socket.ts";
import { createAdminFace } from "./serve/admin.ts";
import { createAuditFace } from "./serve/audit.ts";
import { createAuthorityFace } from "./serve/authority.ts";
import { startHttpServer } from "./serve/http.ts";
import { openMcpEndpoint } from "./serve/mcp/endpoint.ts";
import { createPolicyFace } from "./serve/policy.ts";
import { adminChanges, recordChanges, recordRefused, sessionChanges } from "./serve/record-changes.ts";
import { type RefusedCall, requireRole } from "./serve/require-role.ts";
import { createSessionsService } from "./serve/sessions.ts";
import { createStateFace } from "./serve/state.ts";
import { watchHome } from "./store/watch-home.ts";

/** What a gateway does not make itself. */
export interface GatewayDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** The program's version. */
  readonly version: string;
  /** The program's own environment: the gates of the gateway's own skills are judged by it. */
  readonly environment: Environment;
  /** The key of the embedding provider; a file that the configuration names wins. A secret. */
  readonly embeddingsKey?: string | undefined;
  /** The command that runs it, for the message of others that want its folder; `fairlead gateway run` by default. */
  readonly program?: string;
  /** What follows the revocation of a node, beside what the gateway does itself; it can hold up nobody. */
  readonly cleanUps?: readonly CleanUp[];
}

/** A running gateway. Disposing ends its links, sessions' calls, servers and store, in that order. */
export interface Gateway extends AsyncDisposable {
  readonly addresses: {
    /** Where nodes connect: `HOST:PORT`. */
    readonly link: string;
    /** Where MCP and health are served: a URL. */
    readonly http: string;
    /** The administrators' socket, a path. */
    readonly admin: string;
  };
  /** The pin of the authority's public key. */
  readonly pin: string;
  /** Resolves with the reason once it has ended; never rejects. */
  readonly closed: Promise<unknown>;
}

/** How long calls that run may go on once a gateway stops, in milliseconds. */
const drainMs = 5_000;

/** How long what has been answered may take to its callers then, in milliseconds. */
const answerMs = 1_000;

/**
 * Starts a gateway; it accepts work when the promise resolves. Fails with `CONFLICT` when another process holds its
 * folder, `ALREADY_EXISTS` when a port is taken, and with the faults of the store. The caller disposes it.
 */
export async function startGateway(settings: GatewaySettings, deps: GatewayDeps): Promise<Gateway> {
  const scope = new Scope("the gateway");
  try {
    const addresses = { link: "", http: "", admin: "" };
    const advertised = (): readonly string[] =>
      settings.advertise.length > 0 ? settings.advertise : [addresses.link];
    const late: { credentials?: TlsServerCredentials } = {};
    const features = await startFeatures(scope, settings, {
      ...deps,
      advertised,
      onServerCertificate: (tls) => late.credentials?.reload(tls),
    });
    watchState(scope, settings, { ...deps, features });
    late.credentials = createServerCredentials(features.pairing.tls);
    const { credentials } = late.credentials;
    const local = await startFaces(scope, { settings, deps, features, addresses, advertised, credentials });
    return {
      addresses,
      pin: features.pairing.pin,
      closed: scope.closed,
      [Symbol.asyncDispose]: async () => {
        features.links.drain({ deadlineMs: drainMs, reason: "gateway_stops" });
        // What runs is answered, as long as it ends in time; jobs go on at their node.
        await features.links.settled(drainMs);
        // What a node has answered goes on to whoever asked.
        await local.drain({ timeoutMs: answerMs });
        await scope.end();
      },
    };
  } catch (error) {
    await scope.end(error);
    throw error;
  }
}

/** Looks once whether the newest part of the record is as it was written, and all the time whether the store is there. */
function watchState(
  scope: Scope,
  { dir }: GatewaySettings,
  { features, clock, log }: GatewayDeps & { readonly features: Features },
): void {
  scope.spawn("the watch over the home", (signal) => watchHome({ dir, clock, signal }));
  scope.spawn("the look at the record", async (signal) => {
    try {
      await features.audit.verify({ signal, newestOnly: true });
    } catch (error) {
      if (signal.aborted) return;
      const { code, message, hint = "" } = faultFromError(error);
      log.error("the record of what happened is not as it was written: fairlead audit verify", {
        code,
        reason: message,
        hint,
      });
    }
  });
}

interface FaceParts {
  readonly settings: GatewaySettings;
  readonly deps: GatewayDeps;
  readonly features: Features;
  /** Filled in as the faces begin to listen. */
  readonly addresses: { link: string; http: string; admin: string };
  readonly advertised: () => readonly string[];
  /** Of the TLS port. */
  readonly credentials: TlsServerCredentials["credentials"];
}

/** Starts what listens; gives the server of the local socket. */
async function startFaces(scope: Scope, parts: FaceParts): Promise<GrpcServer> {
  const { settings, deps, features, addresses } = parts;
  const services = localServices(parts, createAdmin(parts));
  const link = await startLinkServer(scope, parts, services);
  addresses.link = link.address;
  const mcp = scope.use(
    openMcpEndpoint({
      ...features.faceParts,
      clock: deps.clock,
      log: deps.log.child({ room: "mcp" }),
      version: deps.version,
    }),
  );
  const where = parseListenAddress(settings.http, "http");
  const http = scope.use(
    await startHttpServer({
      ...where,
      log: deps.log,
      routes: [
        { path: "/mcp", answer: (request) => mcp.fetch(request) },
        { path: "/health", answer: async () => Response.json({ state: "ready" }) },
      ],
    }),
  );
  addresses.http = `http://${where.host.includes(":") ? `[${where.host}]` : where.host}:${http.port}`;
  return await startAdminServer(scope, parts, services);
}

/** The one port for nodes and, with a token, for whoever administers the gateway from elsewhere. */
async function startLinkServer(
  scope: Scope,
  { settings, deps, features, credentials }: FaceParts,
  services: readonly ServedService[],
): Promise<GrpcServer> {
  const { tokens } = features.faceParts;
  const onRefused = (refused: RefusedCall): Promise<void> => recordRefused(features.audit, refused);
  return scope.use(
    await startGrpcServer({
      services: [
        features.links.service,
        features.links.questions,
        features.pairing.service,
        ...services.map((service) => requireRole(service, { tokens, clock: deps.clock, onRefused })),
      ],
      address: settings.listen,
      credentials,
      clock: deps.clock,
    }),
  );
}

/** What the local socket offers, and the TLS port to those who may. */
function localServices(
  { settings, deps, features }: FaceParts,
  admin: ServiceImplementation<typeof Admin>,
): readonly ServedService[] {
  const { audit } = features;
  return [
    serve(Admin, recordChanges(Admin, admin, { audit, changes: adminChanges })),
    serve(
      Sessions,
      recordChanges(Sessions, createSessionsService(features.faceParts), {
        audit,
        changes: sessionChanges,
      }),
    ),
    serve(Files, features.files),
    serve(
      Authority,
      createAuthorityFace({
        change: features.pairing.authority,
        record: (entry) => features.audit.append(entry),
      }),
    ),
    serve(Policy, createPolicyFace({ ...features.policyParts, audit })),
    serve(Audit, createAuditFace({ audit: features.audit, nodes: features.pairing.nodes })),
    serve(
      State,
      createStateFace({
        store: features.store,
        dir: settings.dir,
        version: deps.version,
        clock: deps.clock,
      }),
    ),
  ];
}

function createAdmin(parts: FaceParts): ServiceImplementation<typeof Admin> {
  const { settings, deps, features, addresses, advertised } = parts;
  const startedMs = deps.clock.now();
  return createAdminFace({
    ...features.adminParts,
    status: async () => ({
      state: "ready",
      version: deps.version,
      linkAddress: addresses.link,
      httpAddress: addresses.http,
      pin: features.pairing.pin,
      startedMs: BigInt(startedMs),
      advertised: [...advertised()],
      limits: Object.fromEntries(
        Object.entries({ ...settings.limits, contentStoreBytes: settings.contentStore.maxBytes }).map(
          ([name, value]) => [name, BigInt(value)],
        ),
      ),
      ...(await features.counts()),
    }),
  });
}

async function startAdminServer(
  scope: Scope,
  { settings, deps, addresses }: FaceParts,
  services: readonly ServedService[],
): Promise<GrpcServer> {
  const socket = scope.use(await placeAdminSocket(settings.dir));
  await using starting = new AsyncDisposableStack();
  const server = starting.use(
    await startGrpcServer({
      services,
      address: `unix:${socket.path}`,
      credentials: "insecure",
      clock: deps.clock,
    }),
  );
  await socket.close();
  scope.use(server);
  starting.move();
  addresses.admin = path.resolve(socket.path);
  return server;
}
