import { getOption, hasOption, type DescService } from "@bufbuild/protobuf";
import { expect } from "vitest";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { Node, NodeLink } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { Memory } from "../../../shared/gen/fairlead/v1/memory_pb.ts";
import { CallClass, call_class } from "../../../shared/gen/fairlead/v1/options_pb.ts";
import { Skills } from "../../../shared/gen/fairlead/v1/skills_pb.ts";
import { Tools } from "../../../shared/gen/fairlead/v1/tools_pb.ts";
import { proves } from "../../support/proves.ts";

/** The services that a gateway calls on a node. */
const nodeServices: readonly DescService[] = [Node, Files, Memory, Skills, Tools];

const classes: readonly number[] = [CallClass.IDEMPOTENT, CallClass.JOB, CallClass.AT_MOST_ONCE];

/** The names of the methods that declare no class of the three. */
function findUndeclared(services: readonly DescService[]): string[] {
  const methods = services.flatMap((service) => service.methods);
  const undeclared = methods.filter(
    (method) => !hasOption(method, call_class) || !classes.includes(getOption(method, call_class)),
  );
  return undeclared.map((method) => `${method.parent.typeName}.${method.name}`);
}

proves(
  "link.class-declared",
  "every method of a node declares one class, and one without fails by name",
  () => {
    expect(findUndeclared(nodeServices)).toEqual([]);
    // The option holds one value, so a method cannot declare two; the gateway's own service shows what none looks like.
    expect(findUndeclared([NodeLink])).toEqual([
      "fairlead.v1.NodeLink.Control",
      "fairlead.v1.NodeLink.Serve",
    ]);
  },
);
