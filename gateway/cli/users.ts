import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import { Admin, type User } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime } from "../../shared/terminal/json.ts";
import { openGateway } from "./open-gateway.ts";

const name = { name: "<name>", text: "the user's name" };

/** The `users` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "users ls",
    summary: "who administers this gateway, and in which role",
    example: "fairlead users ls",
    run: async (_, runtime) => {
      await using gateway = await openGateway(runtime);
      const { users } = await gateway.client(Admin).listUsers({}, gateway.call());
      const json = users.map((user) => ({ ...toJson(user), tokens: user.tokens }));
      await runtime.output.result({ users: json }, () => ({
        columns: ["NAME", "ROLE", "ADDED", "TOKENS"],
        rows: users.map((user) => [
          user.name,
          user.role,
          toTime(user.createdMs) ?? "with the gateway",
          String(user.tokens),
        ]),
        empty: "there is no user",
      }));
    },
  },
  {
    words: "users add",
    summary: "add a user; their token is made with tokens create --user",
    example: "fairlead users add anna --role operator",
    args: [name],
    options: [{ flags: "--role <role>", text: "viewer (the default), operator or admin" }],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const request = { name: input.argument("name"), role: input.text("role") ?? "" };
      const user = given((await gateway.client(Admin).addUser(request, gateway.call())).user);
      await runtime.output.result(toJson(user), () => [`user ${user.name} is ${user.role}`]);
      if (runtime.output.isTerminal) {
        runtime.output.note(
          `Make their token with: fairlead tokens create --user ${user.name} --role ${user.role}`,
        );
      }
    },
  },
  {
    words: "users rm",
    summary: "remove a user and end their tokens; never the last administrator",
    example: "fairlead users rm anna",
    args: [name],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const request = { name: input.argument("name") };
      const user = given((await gateway.client(Admin).removeUser(request, gateway.call())).user);
      await runtime.output.result(toJson(user), () => [
        `user ${user.name} is removed, and their tokens have ended`,
      ]);
    },
  },
  {
    words: "users role",
    summary: "give a user another role; it holds for their tokens at once",
    example: "fairlead users role anna admin",
    args: [name, { name: "<role>", text: "viewer, operator or admin" }],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const request = { name: input.argument("name"), role: input.argument("role") };
      const user = given((await gateway.client(Admin).setUserRole(request, gateway.call())).user);
      await runtime.output.result(toJson(user), () => [`user ${user.name} is ${user.role} now`]);
    },
  },
];

function given(user: User | undefined): User {
  if (user) return user;
  throw new Fault("INTERNAL", "the gateway answered without the user");
}

function toJson(user: User): { readonly [key: string]: JsonValue } {
  return { name: user.name, role: user.role, createdAt: toTime(user.createdMs) };
}
