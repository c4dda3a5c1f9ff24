export default function Explorer({ environment }: { environment: string; rest: string }) { return <p>{environment}</p>; }
