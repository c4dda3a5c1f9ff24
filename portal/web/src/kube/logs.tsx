export default function Logs({ environment }: { environment: string }) { return <p>{environment}</p>; }
