-- One row: who owns the database, and how far its commits are.
CREATE TABLE owner (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch       bigint NOT NULL DEFAULT 0, -- grows with every owner: who has an older one must not write
    committed   bigint NOT NULL DEFAULT 0, -- number of the newest group commit: tells whether one in doubt is there
    last_tenant integer NOT NULL DEFAULT 0 -- numbers of tenants are never re-used
) WITH (fillfactor = 10);
INSERT INTO owner DEFAULT VALUES;

CREATE TABLE tenants (
    vc        integer PRIMARY KEY,
    name      text COLLATE "C",              -- null: the platform itself, or deleted
    compacted bigint NOT NULL DEFAULT 0,     -- oldest revision that can be read
    swept     bigint NOT NULL DEFAULT 0,     -- rows that compaction made useless are removed up to here
    deleted   boolean NOT NULL DEFAULT false,-- its rows are being removed
    -- Checked when the statement ends: one statement may free a name and give it to another.
    UNIQUE (name) DEFERRABLE INITIALLY IMMEDIATE
);
INSERT INTO tenants (vc) VALUES (0);
CREATE INDEX unswept ON tenants (vc) WHERE deleted OR swept < compacted;

CREATE TABLE log (
    vc      integer NOT NULL,
    rev     bigint NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    ns      text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    created bigint NOT NULL,               -- revision of the document's creation
    prev    bigint NOT NULL,               -- revision of the document before, 0: there was none
    value   bytea,                         -- null: deleted
    PRIMARY KEY (vc, rev)
);

CREATE TABLE current (
    vc   integer NOT NULL,
    kind text COLLATE "C" NOT NULL,
    ns   text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    rev  bigint NOT NULL,
    PRIMARY KEY (vc, kind, ns, name)
) WITH (fillfactor = 80); -- room to update a row in its page
