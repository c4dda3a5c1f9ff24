"""A check of our own, which schemathesis runs with its own."""

import schemathesis

# Why a request that fits the document can still be refused with 422, by the type of the problem. What is not here is something that a schema can
# say, and has to.
BEYOND_SCHEMAS = {
    # What is named is not there: who names it in a body is told so with 422.
    "unknown-template": "a reference",
    "yanked-version": "a reference: the version is offered no more",
    "unknown-project": "a reference",
    "unknown-role": "a reference",
    "unknown-team": "a reference",
    "unknown-user": "a reference",
    "unknown-parameter": "a reference: the template has no such parameter",
    "unknown-kubernetes-version": "a reference: versions come and go with versions of the server",
    "invalid-binding": "a reference: the template has no such binding, or the resource is of another kind",
    "invalid-role": "names of permissions come with versions of the server; some roles are for the platform alone",
    "invalid-cursor": "what is in it is nobody's business",
    "idempotency-key-reused": "what was sent with the key before",
    # What depends on something else.
    "invalid-parameter": "the template says what it takes",
    "template-not-allowed": "the project says what it allows",
    "image-not-allowed": "the project says what it allows",
    "too-many-shares": "a count of what is there",
    "ambiguous-user": "several users have that email address",
    "ambiguous-place": "two parameters exclude each other",
    "invalid-overlap": "two fields exclude each other",
    "invalid-update": "a rollback says nothing else",
    "invalid-reason": "needed by some of the operations that take a comment; a version that is offered again has none",
    "invalid-rule": "a project's rule names no projects; a size says at least one thing",
    "invalid-resource": "whether a user is needed depends on the kind, and on whether there is a password",
    "invalid-team": "users and groups together are limited",
    # Times and lengths of time.
    "invalid-api-key": "a time in the future, and a year from now at most; a count of keys",
    "invalid-period": "how long a sum of units is; whether one is needed depends on what is asked for",
    "invalid-expiry": "the template says how long",
    "invalid-usage-query": "one time is after the other; a period has whole minutes",
    # Whole languages.
    "invalid-quota": "how large a number with its suffix is",
    "invalid-webhook": "what an address is; the events that there are",
    "invalid-template-source": "what an address is, and a name of a branch",
    "invalid-channel": "in how many channels a version is",
    "invalid-authentication": "an AuthenticationConfiguration of Kubernetes",
    "invalid-audit-policy": "a Policy of audit.k8s.io",
    "invalid-backup": "a file that is signed at its end",
    "broken-template": "files in YAML",
}


@schemathesis.check
def the_schema_says_what_is_taken(ctx, response, case):
    """What fits the document is never told that it has another form."""
    if response.status_code != 422 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    problem = response.json()
    assert problem["type"] in BEYOND_SCHEMAS, f"the schema does not say this ({problem['type']}): {problem['detail']}"
