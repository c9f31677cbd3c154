import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Admin, UserSchema } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { Role } from "../../shared/gen/fairlead/v1/options_pb.ts";
import { nameOfRole } from "../../shared/rpc/principal.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import type { UserRecord } from "../sessions/users.ts";
import type { AdminFaceOptions } from "./admin.ts";
import { toRole } from "./to-role.ts";

type Methods = Pick<
  ServiceImplementation<typeof Admin>,
  "listUsers" | "addUser" | "removeUser" | "setUserRole"
>;

/** Who administers the gateway, and in which role. */
export function userMethods({ users, tokens }: Pick<AdminFaceOptions, "users" | "tokens">): Methods {
  return {
    listUsers: async () => {
      const [all, held] = [await users.list(), await tokens.list()];
      return {
        users: all.map((user) => toUser(user, held.filter((token) => token.user === user.name).length)),
      };
    },
    addUser: async ({ name, role }) => ({
      user: toUser(await users.add(name, role === "" ? Role.VIEWER : toRole(role))),
    }),
    removeUser: async ({ name }) => ({ user: toUser(await users.remove(name)) }),
    setUserRole: async ({ name, role }) => ({ user: toUser(await users.setRole(name, toRole(role))) }),
  };
}

function toUser({ name, role, createdAt }: UserRecord, tokens = 0): MessageInitShape<typeof UserSchema> {
  return { name, role: nameOfRole(role), createdMs: BigInt(createdAt), tokens };
}
