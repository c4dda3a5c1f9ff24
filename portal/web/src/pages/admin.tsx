// What administrators of the server look after: people, teams, roles, the platform itself, and resources outside of it.
import { useMay } from "../lib/may";
import { Empty } from "../ui/feedback";
import { Page, Tabs } from "../ui/page";
import { ApprovalRules } from "./admin/approval-rules";
import { PlatformSection } from "./admin/platform";
import { Resources } from "./admin/resources";
import { Roles } from "./admin/roles";
import { Teams } from "./admin/teams";
import { Users } from "./admin/users";
import { Webhooks } from "./admin/webhooks";

const SECTIONS = [
  { id: "users", label: "Users", to: "/admin/users", needs: "users.list" },
  { id: "teams", label: "Teams", to: "/admin/teams", needs: "teams.list" },
  { id: "roles", label: "Roles", to: "/admin/roles", needs: "roles.list" },
  { id: "platform", label: "Platform", to: "/admin/platform", needs: "platform.get" },
  { id: "webhooks", label: "Webhooks", to: "/admin/webhooks", needs: "platform.update" },
  { id: "approval-rules", label: "Approval rules", to: "/admin/approval-rules", needs: "platform.get" },
  { id: "resources", label: "Resources", to: "/admin/resources", needs: "platform.update" },
];

export default function Admin({ section }: { section: string }) {
  const may = useMay({});
  const chosen = SECTIONS.find((each) => each.id === section);
  const missing = chosen && may(chosen.needs);
  return (
    <Page title="Administration" sub="Everything here counts from the next request on.">
      <Tabs label="Administration" items={SECTIONS} current={section} />
      {!chosen && <Empty icon="search" title="There is no such page" />}
      {missing !== undefined && chosen && (
        <Empty icon="people" title={`${chosen.label} are not yours to see`}>
          <p>{missing}.</p>
        </Empty>
      )}
      {missing === undefined && (
        <>
          {section === "users" && <Users />}
          {section === "teams" && <Teams />}
          {section === "roles" && <Roles />}
          {section === "platform" && <PlatformSection />}
          {section === "webhooks" && <Webhooks />}
          {section === "approval-rules" && <ApprovalRules />}
          {section === "resources" && <Resources />}
        </>
      )}
    </Page>
  );
}
