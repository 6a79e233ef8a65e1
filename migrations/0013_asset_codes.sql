-- 0013 asset codes: one code on several rails (USDT on two chains, KRW at two banks). An asset is its id; where a code names
-- several, whoever asks must give the id.
-- Why: issue 4. Locks: `assets`, for a moment. Duration: milliseconds.

alter table payonce.assets drop constraint assets_code_key;
create index assets_code on payonce.assets (code);
