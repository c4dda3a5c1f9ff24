// Who has which role everywhere, and what each user may have.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { platformQuery, replaceShown } from "../../api/queries";
import type { Platform } from "../../api/types";
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

function Shown({ platform }: { platform: Platform }) {
  const [asked, setAsked] = useState<"member" | "quota" | null>(null);
  const [error, setError] = useState<unknown>();
  const cache = useQueryClient();
  const missing = useMay({})("platform.update");
  const change = async (changes: Partial<Platform>, said: string): Promise<void> => {
    try {
      setError(undefined);
      await replaceShown("/api/v1/platform", { ...platform, ...changes }, platform.revision);
      toast(said);
    } finally {
      await cache.invalidateQueries({ queryKey: ["platform"] });
    }
  };
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
          <Members members={platform.members} missing={missing} onRemove={(member) => void change({ members: platform.members.filter((each) => !alike(each, member)) }, `${member.name} has the role ${member.role} no more`).catch(setError)} />
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
      {asked === "member" && <AddMember place="the platform" role="auditor" onClose={() => setAsked(null)} onAdd={(member) => change({ members: [...platform.members.filter((each) => !alike(each, member)), member] }, `${member.name} has the role ${member.role} everywhere`)} />}
      {asked === "quota" && <UserQuota platform={platform} onClose={() => setAsked(null)} onChange={(userQuota) => change({ userQuota }, "The quota of each user was changed")} />}
    </div>
  );
}

function UserQuota({ platform, onChange, onClose }: { platform: Platform; onChange: (quota: Platform["userQuota"]) => Promise<void>; onClose: () => void }) {
  const [texts, setTexts] = useState(() => quotaTexts(platform.userQuota));
  return (
    <FormDialog title="What each user may have, over all projects" verb="Change" problem={quotaProblem(texts)} onClose={onClose} onSubmit={() => onChange(quotaOf(texts))}>
      <QuotaFields texts={texts} onChange={setTexts} />
    </FormDialog>
  );
}
