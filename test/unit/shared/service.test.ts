import { expect, test } from "vitest";
import { serviceName, unitFile } from "../../../shared/service/unit-file.ts";

const command = ["/usr/bin/node", "/opt/fairlead/dist/main.js", "node", "run", "--home", "/home/me/fl"];
const node = { program: "node", scope: "user", command, path: "/usr/bin:/bin" } as const;

function valuesOf(text: string, key: string): readonly string[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith(`${key}=`))
    .map((line) => line.slice(key.length + 1));
}

test("a crash is mended for ever, but a status that only a person can mend is final", () => {
  for (const program of ["node", "gateway"] as const) {
    const text = unitFile({ ...node, program });
    expect(valuesOf(text, "Restart")).toEqual(["on-failure"]);
    expect(valuesOf(text, "RestartPreventExitStatus")).toEqual(["2 3 4"]);
    expect(valuesOf(text, "StartLimitIntervalSec")).toEqual(["0"]);
  }
});

test("what runs for sessions outlives the agent, and a gateway ends as a whole", () => {
  expect(valuesOf(unitFile(node), "KillMode")).toEqual(["process"]);
  // What they write has the modes that it would have without a service.
  expect(valuesOf(unitFile(node), "UMask")).toEqual([]);
  expect(valuesOf(unitFile(node), "OOMPolicy")).toEqual(["continue"]);
  expect(valuesOf(unitFile({ ...node, program: "gateway" }), "KillMode")).toEqual(["mixed"]);
});

test("a system service waits for the network and runs as the owner of its home", () => {
  const system = unitFile({ ...node, scope: "system", uid: 1000 });
  expect(valuesOf(system, "User")).toEqual(["1000"]);
  expect(valuesOf(system, "After")).toEqual(["network-online.target"]);
  expect(valuesOf(system, "WantedBy")).toEqual(["multi-user.target"]);
  expect(valuesOf(unitFile({ ...node, uid: 1000 }), "User")).toEqual([]);
  expect(valuesOf(unitFile(node), "WantedBy")).toEqual(["default.target"]);
});

test("every word of the command and the path are taken as they are", () => {
  const text = unitFile({
    ...node,
    command: ["/a b/node", 'x"y', "100%", "$HOME", "back\\slash", "two\nlines"],
    path: '/p%q:/"r',
  });
  expect(valuesOf(text, "ExecStart")).toEqual([
    String.raw`"/a b/node" "x\"y" "100%%" "$$HOME" "back\\slash" "two\nlines"`,
  ]);
  expect(valuesOf(text, "Environment")[0]).toBe(String.raw`"PATH=/p%%q:/\"r"`);
  expect(valuesOf(text, "Environment")[1]).toBe('"GLIBC_TUNABLES=glibc.malloc.hugetlb=1"');
  expect(unitFile({ ...node })).toBe(unitFile({ ...node }));
});

test("two homes and two programs never have one service", () => {
  const names = [
    serviceName("node", "/home/me/fl", "/home/me/fl"),
    serviceName("gateway", "/home/me/fl", "/home/me/fl"),
    serviceName("node", "/srv/one", "/home/me/fl"),
    serviceName("node", "/srv/two", "/home/me/fl"),
  ];
  expect(names.slice(0, 2)).toEqual(["fairlead-node", "fairlead-gateway"]);
  expect(names[2]).toMatch(/^fairlead-node-[0-9a-f]{8}$/);
  expect(new Set(names).size).toBe(4);
});
