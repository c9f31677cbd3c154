import { Server, type CallToolResult, type ServerContext, type Tool } from "@modelcontextprotocol/server";
import {
  SKILLS_EXTENSION_ID,
  SKILLS_GET_METHOD,
  SKILLS_LIST_METHOD,
} from "@modelcontextprotocol/server/ext/skills";
import { z } from "zod";
import type { JsonSchema } from "../../../shared/core-tools/core-tools.ts";
import { faultFromError } from "../../../shared/fault/fault-from-error.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import type { Clock } from "../../../shared/lifetime/clock.ts";
import { requireWellFormed } from "../../../shared/names/well-formed.ts";
import type { FaceTool, SessionFace } from "../../sessions/face.ts";
import { cutPage } from "./pages.ts";
import { startProgress } from "./progress.ts";
import { getSkill, listEligible, readAddress, toEntries, toResource } from "./skill-resources.ts";
import { toCallResult, toFailedResult, toUnknownTool } from "./tool-answers.ts";

/** What an MCP server of a session needs. */
export interface McpServerParts {
  readonly face: SessionFace;
  /** The gateway's version. */
  readonly version: string;
  readonly clock: Clock;
}

const cache = { ttlMs: 0, cacheScope: "private" } as const;
const pageParams = z.looseObject({ cursor: z.string().max(1_024).optional() });
const skillParams = z.looseObject({ uri: z.string().max(4_096) });

/** One MCP server over one session: its tools, its skills as resources and through the Skills extension. */
export function createMcpServer(parts: McpServerParts): Server {
  const server = new Server(
    { name: "fairlead", title: "Fairlead", version: parts.version },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { listChanged: true },
        extensions: { [SKILLS_EXTENSION_ID]: {} },
      },
    },
  );
  serveTools(server, parts);
  serveSkills(server, parts.face);
  return server;
}

function serveTools(server: Server, parts: McpServerParts): void {
  const { face } = parts;
  server.setRequestHandler("tools/list", async ({ params }, { mcpReq }) => {
    const { tools, surface } = await face.listTools({ signal: mcpReq.signal });
    const { items, ...more } = cutPage(tools, {
      digest: surface,
      cursor: params?.cursor,
      sizeOf: (tool) => tool.inputSchemaJson.length + tool.description.length,
    });
    return { tools: items.map(toTool), ...more };
  });
  server.setRequestHandler("tools/call", ({ params }, context) => callTool(params, context, parts));
}

function toTool(tool: FaceTool): Tool {
  return {
    name: tool.name,
    ...(tool.title === "" ? {} : { title: tool.title }),
    description: tool.node === "" ? tool.description : `${tool.description} (On ${tool.node}.)`,
    inputSchema: JSON.parse(tool.inputSchemaJson) as Tool["inputSchema"] & JsonSchema,
    annotations: {
      readOnlyHint: tool.effect === "read",
      destructiveHint: tool.effect !== "read",
      idempotentHint: tool.callClass === "idempotent",
      openWorldHint: tool.effect === "execute",
    },
  };
}

interface CallParams {
  readonly name: string;
  readonly arguments?: Record<string, unknown> | undefined;
  readonly _meta?:
    | { readonly progressToken?: string | number | undefined; readonly [key: string]: unknown }
    | undefined;
}

async function callTool(
  params: CallParams,
  { mcpReq }: ServerContext,
  parts: McpServerParts,
): Promise<CallToolResult> {
  const traceparent = params._meta?.["traceparent"];
  const progress = startProgress(params._meta?.progressToken, {
    notify: (notification) => mcpReq.notify(notification),
    clock: parts.clock,
  });
  let started = false;
  try {
    const given = requireWellFormed(params.arguments ?? {}, "arguments");
    const call = parts.face.callTool({
      name: params.name,
      arguments: given as Parameters<SessionFace["callTool"]>[0]["arguments"],
      signal: mcpReq.signal,
      traceparent: typeof traceparent === "string" ? traceparent : undefined,
    });
    for await (const part of call) {
      started ||= part.kind === "started";
      if (part.kind === "output") await progress.advance(part.data.byteLength);
      if (part.kind === "result") return toCallResult(part.result);
    }
    throw new Fault("TOOL_FAILED", `${params.name} ended without a result`);
  } catch (error) {
    const fault = faultFromError(error);
    if (!started && fault.code === "NOT_FOUND") throw toUnknownTool(fault);
    return toFailedResult(fault);
  }
}

function serveSkills(server: Server, face: SessionFace): void {
  server.setRequestHandler("resources/list", async ({ params }, { mcpReq }) => {
    const { skills, snapshot } = await listEligible(face, mcpReq.signal);
    const { items, ...more } = cutPage(skills, {
      digest: snapshot,
      cursor: params?.cursor,
      sizeOf: (skill) => skill.description.length + skill.location.length,
    });
    return { resources: items.map(toResource), ...more };
  });
  server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: [] }));
  server.setRequestHandler("resources/read", async ({ params }, { mcpReq }) => {
    const { text, blob, ...contents } = await readAddress(face, params.uri, mcpReq.signal);
    return { contents: [text === undefined ? { ...contents, blob: blob ?? "" } : { ...contents, text }] };
  });
  server.setRequestHandler(SKILLS_LIST_METHOD, { params: pageParams }, async ({ cursor }, { mcpReq }) => {
    const { skills, snapshot } = await listEligible(face, mcpReq.signal);
    const { items, ...more } = cutPage(skills, {
      digest: snapshot,
      cursor,
      sizeOf: (skill) => skill.frontMatterJson.length + skill.location.length,
    });
    return { skills: await toEntries(face, items, mcpReq.signal), ...more, ...cache };
  });
  server.setRequestHandler(SKILLS_GET_METHOD, { params: skillParams }, async ({ uri }, { mcpReq }) => {
    const found = await getSkill(face, uri, mcpReq.signal);
    const [skill] = await toEntries(face, [found], mcpReq.signal);
    return { skill, ...cache };
  });
}
