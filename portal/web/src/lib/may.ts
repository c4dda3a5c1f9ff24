// What the one who is signed in may do, for buttons that say why they do nothing. The server decides.
import { useQuery } from "@tanstack/react-query";
import { type Place, permissionsQuery } from "../api/queries";

/** Why a permission is missing at a place; nothing when it is there, or while that is not known. */
export function useMay(place: Place): (permission: string) => string | undefined {
  const { data } = useQuery(permissionsQuery(place));
  const whom = place.environment !== undefined ? "the owner of the environment or a maintainer of its project" : place.project !== undefined ? "an administrator of the project" : "an administrator of this server";
  return (permission) => (data === undefined || data.includes(permission) ? undefined : `You need ${permission} for this: ask ${whom}`);
}
