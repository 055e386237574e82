/** Who looks at this page, and what their role lets them do. */

import { useQuery } from "@tanstack/react-query";
import { type Me, whoAmIOptions } from "@/shared/api";

/** What people may be, the one that may least first. */
export const ROLES: readonly Me["role"][] = ["viewer", "operator", "admin"];

/** Who looks; undefined until the server has said it. */
export function useMe(): Me | undefined {
  return useQuery({ ...whoAmIOptions(), staleTime: 60_000 }).data;
}

/** Whether a role is enough for something. The server has the last word: until it is known, yes. */
export function useMay(role: Me["role"]): boolean {
  const me = useMe();
  return me === undefined || ROLES.indexOf(me.role) >= ROLES.indexOf(role);
}
