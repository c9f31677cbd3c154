import { expect } from "vitest";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeSkill, openSessionKit } from "../../support/session-kit.ts";
import { callTool } from "../../support/tool-calls.ts";

proves(
  "tools.unknown-name",
  "an unknown name gets the nearest names of the caller's own surface, a skill's name is told from a tool's",
  async () => {
    await using kit = await openSessionKit({
      skills: [makeSkill("deploy")],
      agents: { coder: { deny: ["read"] } },
    });
    await kit.addNode();
    await kit.addNode({ alias: "devbux" });
    const { id } = await kit.sessions.open({ agent: "coder", workspace: "devbox:/app" });
    const caller = await kit.sessions.caller(id);
    const miss = (name: string): ReturnType<typeof faultOf> =>
      faultOf(callTool(kit.tools, caller, { name, arguments: {} }));
    const listed = new Set((await kit.tools.surface(caller)).tools.map(({ name }) => name));
    for (const [name, near] of [
      ["exce", "exec"],
      ["devbox__lst", "devbox__list"],
      ["memory_serch", "memory_search"],
      ["wrlte", "write"],
      ["reed", undefined],
      ["devbox__raed", undefined],
      ["x".repeat(500), undefined],
    ] as const) {
      const fault = await miss(name);
      expect(fault.code).toBe("NOT_FOUND");
      const suggestions = fault.details["suggestions"];
      if (!Array.isArray(suggestions)) throw new Error("there are no suggestions");
      expect(suggestions.length).toBeLessThanOrEqual(3);
      // What policy hides is never suggested.
      expect(suggestions.filter((one) => !listed.has(String(one)))).toEqual([]);
      if (near !== undefined) expect(suggestions).toContain(near);
    }
    const skill = await miss("devbox-deploy");
    expect(skill).toMatchObject({ code: "NOT_FOUND", details: { skill: "devbox-deploy", suggestions: [] } });
    expect(skill.hint).toContain("fairlead skills read devbox-deploy");
    expect((await miss("read")).code).toBe("TOOL_NOT_EXPOSED");
    expect(await miss("read")).toMatchObject({ details: { state: "exposed", rule: "agents.coder.deny" } });
  },
);
