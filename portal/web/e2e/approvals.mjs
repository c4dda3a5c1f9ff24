// Somebody wants more than rules allow, says why, and gets it when the lead says yes; a role for an hour, and the glass that is broken.
import assert from "node:assert/strict";
import { MARKUP } from "./browser.mjs";

/** `rule` holds a second environment of one person. */
export async function approvals({ portal, page, lead, checked }) {
  const asker = page.getByRole("dialog");
  const decider = lead.getByRole("dialog");

  // The wizard says that it needs approval, and asks why.
  await page.goto(`${portal}/create?template=blank`);
  await page.getByRole("textbox", { name: /^Name/ }).fill("second");
  await page.getByRole("button", { name: "Create environment" }).click();
  await page.getByRole("alert").first().waitFor();
  const why = page.getByRole("textbox", { name: /^Why you need it/ });
  await why.fill(MARKUP);
  await checked(page, "approval-why");
  await page.getByRole("button", { name: "Ask for approval" }).click();
  await asker.getByText("Pending").first().waitFor();
  await asker.getByText(MARKUP).first().waitFor();
  // Nobody decides about their own request: the buttons say so.
  assert.equal(await asker.getByRole("button", { name: "Approve" }).getAttribute("aria-disabled"), "true");
  await checked(page, "approval-asked");

  // The lead finds it waiting; a denial without a word is not possible.
  await lead.goto(`${portal}/approvals`);
  await lead.getByRole("button", { name: "Create second" }).click();
  await decider.getByText(MARKUP).first().waitFor();
  assert.equal(await decider.getByRole("button", { name: "Deny" }).getAttribute("aria-disabled"), "true");
  await decider.getByRole("textbox", { name: "Comment" }).fill(`until Friday ${MARKUP}`);
  await checked(lead, "approval-decide");
  await decider.getByRole("button", { name: "Approve" }).click();
  await decider.getByText("Fulfilled").first().waitFor();

  // It is carried out by itself, and whoever asked sees it.
  await asker.getByText("until Friday").waitFor();
  await page.goto(`${portal}/environments/second`);
  await page.locator("h1 .state.good", { hasText: "Ready" }).waitFor();

  // A role for an hour: asked for, given, given back.
  await page.goto(`${portal}/approvals?view=mine`);
  await page.getByRole("button", { name: "Ask for a role" }).click();
  await asker.getByRole("combobox", { name: "Role" }).selectOption("viewer");
  await asker.getByRole("textbox", { name: "For how long" }).fill("1h");
  await asker.getByRole("textbox", { name: /^Why/ }).fill("to have a look");
  await asker.getByRole("button", { name: "Ask", exact: true }).click();
  await asker.getByText("Pending").first().waitFor();
  await lead.goto(`${portal}/approvals`);
  await lead.getByRole("button", { name: "viewer of default" }).click();
  await decider.getByRole("button", { name: "Approve" }).click();
  await decider.getByText("Active").first().waitFor();
  await asker.getByRole("button", { name: "Give it back" }).click();
  await asker.getByText("Ended").first().waitFor();

  // The lead breaks the glass: it counts at once, and stays to be reviewed by somebody else.
  await lead.goto(`${portal}/approvals`);
  await lead.getByRole("button", { name: "Break the glass" }).click();
  await decider.getByRole("textbox", { name: /^Why/ }).fill(`the shop is down ${MARKUP}`);
  await decider.getByRole("button", { name: "Take the role now" }).click();
  await decider.getByText("Active").first().waitFor();
  await checked(lead, "approval-break-glass");
  await lead.goto(`${portal}/approvals?view=review`);
  await lead.getByRole("button", { name: "Break-glass: admin of default" }).waitFor();
  await checked(lead, "approval-review");

  // All of it is in the audit trail.
  await lead.goto(`${portal}/audit?action=approval.*`);
  await lead.getByRole("table", { name: "Audit trail" }).getByRole("button", { name: /^approval\.approve/ }).first().waitFor();
}
