import { useEffect, useState } from "react";

/** Shows where a parcel is and asks again every ten seconds. */
export function TrackingPage({ barcode }: { barcode: string }) {
  const [depot, setDepot] = useState<string | null>(null);

  useEffect(() => {
    const poll = () => fetch(`/api/parcels/${barcode}`).then((reply) => reply.json()).then((row) => setDepot(row.depot));
    poll();
    const timer = setInterval(poll, 10_000);
    return () => clearInterval(timer);
  }, [barcode]);

  return depot ? <p>Your parcel is in {depot}.</p> : <p>Not seen yet.</p>;
}
