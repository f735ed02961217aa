"""Which images of nights are still needed?"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from storage.rows import Connection


def needed_digests(connection: Connection, *, controls: Sequence[str], newest: int) -> list[str]:
    """The digests that any machine and source needs, for they share an engine.

    Those are of nights that are being measured, of both ends of open incidents and re-measurements, of those in which an open
    bisection builds, of the pinned nights (labels in `controls`), of the first night that each machine has measured of a source,
    and of the `newest` nights of each source.
    """
    query = sa.text(
        """
        with nights as (
            select night.*, row_number() over (partition by source_id order by at desc, label desc) as age
            from night where digests ? 'digest'
        ), ends as (
            select after_night_id as night_id from incident where recovered_at is null
            union select through_night_id from incident where recovered_at is null
            union select after_night_id from recheck join evidence on recheck_id = recheck.id where verdict is null
            union select through_night_id from recheck join evidence on recheck_id = recheck.id where verdict is null
            union select night_id from run where outcome is null
            union select nights.id from nights join bisection on container = digests ->> 'digest' where state = 'open'
        ), firsts as (
            select distinct on (run.machine_id, nights.source_id) nights.id
            from nights join run on run.night_id = nights.id and run.outcome = 'ok'
            order by run.machine_id, nights.source_id, nights.at, nights.label
        )
        select distinct digests ->> 'digest' as digest from nights
        where id in (select night_id from ends) or id in (select id from firsts)
           or label = any(:controls) or age <= :newest
        order by 1
        """
    )
    where = {"controls": list(controls), "newest": newest}
    return [row.digest for row in connection.execute(query, where)]
