// An error inside one view is said in its place, and the other views go on.
import { Component, type ComponentChildren } from "preact";
import { Button } from "./ui/controls";

interface GuardProps {
  name: string; // of the view
  of: unknown; // its data: with other data it is tried again
  children: ComponentChildren;
}

interface Caught {
  error?: unknown;
  of: unknown;
}

export class Guard extends Component<GuardProps, Caught> {
  override state: Caught = { of: this.props.of };

  static override getDerivedStateFromError(error: unknown): Partial<Caught> {
    return { error };
  }

  static override getDerivedStateFromProps({ of }: GuardProps, state: Caught): Partial<Caught> | null {
    return of === state.of ? null : { of, error: undefined };
  }

  override componentDidCatch(error: unknown) {
    console.error(error);
  }

  override render() {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return (
      <div class="broken" role="alert">
        <p>
          {this.props.name} stopped: {error instanceof Error ? error.message : String(error)}. The other
          views work.
        </p>
        <Button onClick={() => this.setState({ error: undefined })}>Try again</Button>
      </div>
    );
  }
}
