-- What the PostgreSQL store keeps. The store runs this by itself where it is missing; run it yourself where
-- programs may not change schemas, and grant USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on both tables,
-- USAGE on the sequence and EXECUTE on the functions.
--
-- Time is the server's clock_timestamp(), read after the rows are locked. Rows of resources are never deleted: the
-- sequence and the row's lock together make tokens rise.

CREATE SCHEMA IF NOT EXISTS leasehold;

CREATE SEQUENCE IF NOT EXISTS leasehold.tokens;

CREATE TABLE IF NOT EXISTS leasehold.resources (
    name     text PRIMARY KEY,
    lease    bigint,                      -- which lease holds it; null: nobody
    note     text NOT NULL DEFAULT '',    -- its holder and metadata, as JSON
    token    bigint NOT NULL DEFAULT 0,   -- of the latest grant
    since    timestamptz,                 -- of the latest grant
    deadline timestamptz                  -- of the latest grant or renewal; infinity: no end by time
);
CREATE INDEX IF NOT EXISTS resources_lease ON leasehold.resources (lease) WHERE lease IS NOT NULL;

-- Leases that are over, so that a late copy of their grant does nothing.
CREATE TABLE IF NOT EXISTS leasehold.ended (
    lease bigint PRIMARY KEY,
    until timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS ended_until ON leasehold.ended (until);

CREATE OR REPLACE FUNCTION leasehold.left_ms(deadline timestamptz, at timestamptz) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN deadline < 'infinity' THEN floor(extract(epoch FROM deadline - at) * 1000)::bigint END
$$;

-- Grants all of the resources or none. Answers a row for each: 'granted' with token and time left, or one row
-- 'held' with the holder that is in the way, or one row 'ended'.
CREATE OR REPLACE FUNCTION leasehold.grant_lease(wish bigint, names text[], ttl_ms bigint, its_note text)
RETURNS TABLE (outcome text, resource text, left_ms bigint, token bigint, lease bigint, since_ms bigint, held_ms bigint,
               note text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    at    timestamptz;
    mine  integer;
    other leasehold.resources;
BEGIN
    -- One at a time for each lease: a grant and its end never pass each other.
    PERFORM pg_advisory_xact_lock(wish);
    IF EXISTS (SELECT FROM leasehold.ended e WHERE e.lease = wish) THEN
        RETURN QUERY SELECT 'ended', null::text, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint,
                            null::text;
        RETURN;
    END IF;
    INSERT INTO leasehold.resources (name) SELECT n FROM unnest(names) n ORDER BY n ON CONFLICT DO NOTHING;
    PERFORM FROM leasehold.resources r WHERE r.name = ANY (names) ORDER BY r.name FOR UPDATE;
    at := clock_timestamp();
    SELECT count(*) INTO mine FROM leasehold.resources r
        WHERE r.name = ANY (names) AND r.lease = wish AND r.deadline > at;
    IF mine = 0 THEN
        SELECT * INTO other FROM leasehold.resources r
            WHERE r.name = ANY (names) AND r.lease IS NOT NULL AND r.deadline > at ORDER BY r.name LIMIT 1;
        IF FOUND THEN
            RETURN QUERY SELECT 'held', other.name, leasehold.left_ms(other.deadline, at), other.token, other.lease,
                                floor(extract(epoch FROM other.since) * 1000)::bigint,
                                floor(extract(epoch FROM at - other.since) * 1000)::bigint, other.note;
            RETURN;
        END IF;
        UPDATE leasehold.resources r
            SET lease = wish, note = its_note, token = nextval('leasehold.tokens'), since = at,
                deadline = coalesce(at + ttl_ms * interval '1 millisecond', 'infinity')
            WHERE r.name = ANY (names);
    ELSIF mine < cardinality(names) THEN
        -- Somebody took a part of it by hand: it is over.
        UPDATE leasehold.resources r SET lease = null WHERE r.lease = wish;
        INSERT INTO leasehold.ended VALUES (wish, at + interval '10 minutes');
        RETURN QUERY SELECT 'ended', null::text, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint,
                            null::text;
        RETURN;
    END IF;
    RETURN QUERY SELECT 'granted', r.name, leasehold.left_ms(r.deadline, at), r.token, r.lease, null::bigint,
                        null::bigint, null::text
        FROM leasehold.resources r WHERE r.name = ANY (names) ORDER BY r.name COLLATE "C";
END
$$;

-- Renews a lease that still holds all of the resources; a deadline never moves back. Answers 'renewed' with the
-- time left, or 'lost' with the token of another holder, if there is one.
CREATE OR REPLACE FUNCTION leasehold.renew_lease(wish bigint, names text[], ttl_ms bigint)
RETURNS TABLE (outcome text, left_ms bigint, token bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    at    timestamptz;
    until timestamptz;
    mine  integer;
BEGIN
    PERFORM FROM leasehold.resources r WHERE r.name = ANY (names) ORDER BY r.name FOR UPDATE;
    at := clock_timestamp();
    SELECT count(*) INTO mine FROM leasehold.resources r
        WHERE r.name = ANY (names) AND r.lease = wish AND r.deadline > at;
    IF mine < cardinality(names) THEN
        RETURN QUERY SELECT 'lost', null::bigint, max(r.token) FROM leasehold.resources r
            WHERE r.name = ANY (names) AND r.lease IS NOT NULL AND r.lease <> wish AND r.deadline > at;
        RETURN;
    END IF;
    until := coalesce(at + ttl_ms * interval '1 millisecond', 'infinity');
    UPDATE leasehold.resources r SET deadline = greatest(r.deadline, until) WHERE r.name = ANY (names);
    RETURN QUERY SELECT 'renewed', min(leasehold.left_ms(r.deadline, at)), null::bigint
        FROM leasehold.resources r WHERE r.name = ANY (names);
END
$$;

-- Ends a lease, wherever it is, and remembers that for `kept_ms`.
CREATE OR REPLACE FUNCTION leasehold.end_lease(wish bigint, kept_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(wish);
    PERFORM FROM leasehold.resources r WHERE r.lease = wish ORDER BY r.name FOR UPDATE;
    UPDATE leasehold.resources r SET lease = null WHERE r.lease = wish;
    INSERT INTO leasehold.ended VALUES (wish, clock_timestamp() + kept_ms * interval '1 millisecond')
        ON CONFLICT (lease) DO UPDATE SET until = excluded.until;
    -- A few at a time, those that nobody else is clearing away.
    DELETE FROM leasehold.ended WHERE lease IN
        (SELECT e.lease FROM leasehold.ended e WHERE e.until < clock_timestamp() LIMIT 10 FOR UPDATE SKIP LOCKED);
END
$$;
