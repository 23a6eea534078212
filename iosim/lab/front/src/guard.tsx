// An error inside one view is said in its place, and the other views go on.
import { Component, type ComponentChildren } from "preact";
import { Button } from "./ui/controls";

export class Guard extends Component<{ name: string; children: ComponentChildren }, { error?: Error }> {
  override state: { error?: Error } = {};

  static override getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <div class="broken" role="alert">
        <p>
          {this.props.name} stopped: {error.message}
        </p>
        <Button onClick={() => this.setState({ error: undefined })}>Try again</Button>
      </div>
    );
  }
}
