// What two people have made of one thing, side by side, to choose from.
import { useId } from "react";
import { type Choice, type Difference, canBeBoth, keyOf, textOf, titleOf, valueOf } from "../lib/merging";
import { Note } from "./feedback";

export interface MergingProps {
  differences: Difference[];
  choices: Record<string, Choice>;
  onChoose: (choices: Record<string, Choice>) => void;
}

export function Merging({ differences, choices, onChoose }: MergingProps) {
  const conflicts = differences.filter((each) => each.whose === "conflict");
  const rest = differences.filter((each) => each.whose !== "conflict");
  return (
    <div className="stack">
      <div role="alert">
        <Note kind="busy" icon="warning">
          <span>
            Somebody else has changed this since you opened it; nothing of yours was written yet. {conflicts.length === 0 ? "Both changes go together." : "Choose where both of you have changed the same."}
          </span>
        </Note>
      </div>
      {conflicts.map((each) => (
        <Conflict key={keyOf(each)} difference={each} choice={choices[keyOf(each)]} onChoose={(choice) => onChoose({ ...choices, [keyOf(each)]: choice })} />
      ))}
      {rest.length > 0 && (
        <section className="stack tight">
          <h3>{conflicts.length === 0 ? "What comes of it" : "The rest"}</h3>
          <ul className="stack tight">
            {rest.map((each) => (
              <li key={keyOf(each)} className="condition">
                <span>
                  {titleOf(each.path)} <span className="badge">{WHOSE[each.whose]}</span>
                </span>
                <span className="soft mono">{textOf(valueOf(each, undefined))}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

const WHOSE: Record<Difference["whose"], string> = { mine: "yours", theirs: "theirs", same: "both the same", together: "both", conflict: "" };

function Conflict({ difference, choice, onChoose }: { difference: Difference; choice: Choice | undefined; onChoose: (choice: Choice) => void }) {
  const name = useId();
  const options: [Choice, string][] = [
    ["mine", "Yours"],
    ["theirs", "Theirs"],
  ];
  if (canBeBoth(difference)) options.push(["both", "Both"]);
  return (
    <fieldset className="merge">
      <legend>
        {titleOf(difference.path)} <span className="faint">was {textOf(difference.base)}</span>
      </legend>
      {options.map(([value, label]) => (
        <label key={value} className="choice">
          <input type="radio" name={name} checked={choice === value} onChange={() => onChoose(value)} />
          <span className="name">{label}</span>
          <span className="soft mono">{textOf(valueOf(difference, value))}</span>
        </label>
      ))}
    </fieldset>
  );
}
