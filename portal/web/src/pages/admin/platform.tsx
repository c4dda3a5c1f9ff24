// Who has which role everywhere, and what each user may have.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Merge, replace, replaceAnyway } from "../../api/edit";
import { platformQuery } from "../../api/queries";
import type { Member, Platform } from "../../api/types";
import { useMay } from "../../lib/may";
import { Button } from "../../ui/controls";
import { ErrorNote, Loaded, toast } from "../../ui/feedback";
import { FormDialog } from "../../ui/form";
import { Panel } from "../../ui/page";
import { AddMember, Members, alike } from "../members";
import { QuotaFields, quotaOf, quotaProblem, quotaText, quotaTexts } from "../quota";

export function PlatformSection() {
  const query = useQuery(platformQuery);
  return <Loaded query={query}>{(platform) => <Shown platform={platform} />}</Loaded>;
}

const PATH = "/api/v1/platform";
const settingsOf = ({ members, userQuota }: Platform) => ({ members, userQuota });

function Shown({ platform }: { platform: Platform }) {
  const [asked, setAsked] = useState<"member" | "quota" | null>(null);
  const [error, setError] = useState<unknown>();
  const cache = useQueryClient();
  const missing = useMay({})("platform.update");
  const changed = async (what: Promise<void>, said: string): Promise<void> => {
    try {
      setError(undefined);
      await what;
      toast(said);
    } finally {
      await cache.invalidateQueries({ queryKey: ["platform"] });
    }
  };
  const members = (list: Member[], said: string): Promise<void> => changed(replaceAnyway(PATH, platform, { ...settingsOf(platform), members: list }, settingsOf), said);
  return (
    <div className="columns">
      <Panel
        title="Roles everywhere"
        actions={
          <Button small icon="plus" disabledReason={missing} onPress={() => setAsked("member")}>
            Member
          </Button>
        }
      >
        <div className="stack">
          <p className="soft">In every project, and on the server itself.</p>
          {error !== undefined && <ErrorNote error={error} />}
          <Members members={platform.members} missing={missing} onRemove={(member) => void members(platform.members.filter((each) => !alike(each, member)), `${member.name} has the role ${member.role} no more`).catch(setError)} />
        </div>
      </Panel>
      <Panel
        title="Each user"
        actions={
          <Button small icon="edit" disabledReason={missing} onPress={() => setAsked("quota")}>
            Change
          </Button>
        }
      >
        <p>{quotaText(platform.userQuota)}, over all projects</p>
      </Panel>
      {asked === "member" && <AddMember place="the platform" role="auditor" onClose={() => setAsked(null)} onAdd={(member) => members([...platform.members.filter((each) => !alike(each, member)), member], `${member.name} has the role ${member.role} everywhere`)} />}
      {asked === "quota" && <UserQuota shown={platform} onClose={() => setAsked(null)} onChange={(what) => changed(what, "The quota of each user was changed")} />}
    </div>
  );
}

function UserQuota({ shown, onChange, onClose }: { shown: Platform; onChange: (what: Promise<void>) => Promise<void>; onClose: () => void }) {
  // As it was when the form was opened.
  const [platform] = useState(shown);
  const [texts, setTexts] = useState(() => quotaTexts(platform.userQuota));
  return (
    <FormDialog title="What each user may have, over all projects" verb="Change" problem={quotaProblem(texts)} onClose={onClose} onSubmit={(merge?: Merge) => onChange(replace(PATH, platform, { ...settingsOf(platform), userQuota: quotaOf(texts) }, settingsOf, merge))}>
      <QuotaFields texts={texts} onChange={setTexts} />
    </FormDialog>
  );
}
