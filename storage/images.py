"""Which images of nights are still needed?"""

from __future__ import annotations

import sqlalchemy as sa

from stepwatch.core import model
from storage.rows import Connection


def needed_digests(
    connection: Connection, *, machine: str, source: model.Source, control: str | None, newest: int
) -> list[str]:
    """The digests of nights that are being measured, of the ends of open incidents and re-measurements, of the control, and of the `newest` ones.

    `control` is the label of the pinned night; None: the first that was measured on the machine.
    """
    query = sa.text(
        """
        with nights as (
            select night.* from night join source on source.id = night.source_id
            where source.kind = :kind and source.name = :source and night.digests ? 'digest'
        ), ends as (
            select after_night_id as after, through_night_id as through from incident where recovered_at is null
            union all
            select recheck.after_night_id, recheck.through_night_id from recheck
            join evidence on evidence.recheck_id = recheck.id where evidence.verdict is null
            union all
            select run.night_id, run.night_id from run where run.outcome is null and run.night_id is not null
        ), measured as (
            select nights.id from nights
            join run on run.night_id = nights.id and run.outcome = 'ok'
            join machine on machine.id = run.machine_id and machine.name = :machine
            order by nights.at limit 1
        )
        select distinct nights.digests ->> 'digest' as digest from nights
        where nights.id in (select after from ends union select through from ends)
           or nights.label = :control
           or (cast(:control as text) is null and nights.id in (select id from measured))
           or nights.id in (select id from nights order by at desc, label desc limit :newest)
        order by 1
        """
    )
    where = {
        "kind": source.kind.value,
        "source": source.name,
        "machine": machine,
        "control": control,
        "newest": newest,
    }
    return [row.digest for row in connection.execute(query, where)]
