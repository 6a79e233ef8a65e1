-- 0010 absent: an approval whose ask was answered against it ends void, with the reason in the audit log.
-- Why: design §2 (OPERATOR_ABSENT), T11. Locks: none. Duration: milliseconds.

-- What the second person approves is what the first proposed, and stays it. From `approved` to `void`: the rail was asked
-- under the approval and said something else.
create or replace function payonce.proposals_guard() returns trigger
language plpgsql as $$
begin
  if tg_op = 'DELETE'
     or (old.id, old.case_id, old.verb, old.detail, old.evidence_version, old.proposed_by, old.proposed_at)
        is distinct from (new.id, new.case_id, new.verb, new.detail, new.evidence_version, new.proposed_by, new.proposed_at)
     or old.state in ('void', 'done')
     or old.state = 'approved' and (new.state not in ('done', 'void') or new.approved_by <> old.approved_by) then
    raise exception 'proposal % is frozen', old.id using errcode = 'P0B19', constraint = 'proposals_frozen';
  end if;
  return new;
end $$;
